package electorprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mandate-dev/mandate/elector/shard"
)

// Member is a prometheus.Collector of one member of a group of shards. Its few series, with the
// label group, do not grow with the number of shards: use `mandate exporter` to see which shards
// each member owns, and whether all are owned. Safe for concurrent use.
type Member struct {
	member *shard.Member

	owned, shards, able, left, lease *prometheus.Desc
}

// NewMember returns a Member. It does no I/O.
func NewMember(m *shard.Member) *Member {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("mandate_member_"+name, help, nil, prometheus.Labels{"group": m.Group()})
	}
	return &Member{
		member: m,
		owned:  desc("shards_owned", "Shards that this member owns, by the clock at the moment of the scrape."),
		shards: desc("group_shards", "Shards of the group, as far as this member knows."),
		able:   desc("able", "1 while this member can be given shards: running, healthy, Redis reachable."),
		left:   desc("lease_left_seconds", "Shortest time until the work of a shard must stop unless its lease is renewed, 0 while this member owns none."),
		lease:  desc("lease_seconds", "Lease of each shard."),
	}
}

// Describe implements prometheus.Collector.
func (c *Member) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector. It does no I/O.
func (c *Member) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	owned, left := 0, time.Duration(0)
	for _, s := range c.member.Owned() {
		t := c.member.Term(s)
		if t == nil {
			continue // the term has just ended
		}
		if l := t.Left(); owned == 0 || l < left {
			left = l
		}
		owned++
	}
	gauge(c.owned, float64(owned))
	gauge(c.shards, float64(c.member.Shards()))
	gauge(c.able, flag(c.member.Check() == nil))
	gauge(c.left, left.Seconds())
	gauge(c.lease, c.member.Lease().Seconds())
}

package exporter

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/shard"
)

// maxMembers is how many members of a group have their own series.
const maxMembers = 200

// samples collects gauges.
type samples struct {
	prefix string
	all    []prometheus.Metric
}

// gauge adds a value with the prefix and pairs of further labels. Anyone who may write to Redis can
// choose the names of elections, so their bytes may be no text.
func (s *samples) gauge(name, help string, value float64, labels ...string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, strings.ToValidUTF8(labels[i+1], "\uFFFD"))
	}
	desc := prometheus.NewDesc("mandate_"+name, help, names, prometheus.Labels{"prefix": s.prefix})
	if m, err := prometheus.NewConstMetric(desc, prometheus.GaugeValue, value, values...); err == nil {
		s.all = append(s.all, m)
	}
}

func (s *samples) election(r *doctor.Report, leaderless float64) {
	gauge := func(name, help string, value float64) { s.gauge("election_"+name, help, value, "election", r.Election) }
	if r.StatusErr == nil {
		gauge("leader_known", "1 if a candidate holds the lock on a majority of the nodes, 0 if none does. Absent if that cannot be read.", flag(r.Leader != nil))
		gauge("leaderless_seconds", "Time since the last leader, 0 while there is one. Of a leader that vanished: since it was first missed here. +Inf: none was ever seen.", leaderless)
		gauge("paused", "1 while an operator wants no new leader.", flag(r.Paused))
	}
	if r.CandidatesErr != nil {
		return
	}
	able, observers := 0.0, 0.0
	for _, c := range r.Candidates {
		able += flag(c.Able())
		observers += flag(c.Observes())
	}
	gauge("candidates", "Candidates that answered the roll call, without observers. Absent if it could not be called.", float64(len(r.Candidates))-observers)
	gauge("observers", "Observers that answered the roll call: they never campaign. Absent if it could not be called.", observers)
	gauge("candidates_able", "Candidates that lead or could be elected.", able)
}

// group adds what is known of a group and of its members, and nothing for single shards.
func (s *samples) group(g *groupReading, unowned float64) {
	if g.err != nil {
		return
	}
	st := &g.status
	gauge := func(name, help string, value float64) { s.gauge("group_"+name, help, value, "group", g.name) }
	open := 0.0
	for i := range st.Members {
		open += flag(st.Members[i].Closed == "")
	}
	gauge("shards", "Shards of the group.", float64(st.Shards))
	gauge("shards_unowned", "Shards that no member reports as its own.", float64(len(st.Unowned)))
	gauge("unowned_seconds", "For how long the shard that is longest without an owner has been seen so, 0 while all have one.", unowned)
	gauge("shards_moving", "Shards that a member owns and another one is to own.", float64(len(st.Moving)))
	gauge("members", "Living members.", float64(len(st.Members)))
	gauge("members_open", "Living members that want shards: healthy, and not stopping.", open)
	gauge("assigner_known", "1 if a member makes the plans, 0 if none does or that cannot be read.", flag(st.Assigner != ""))
	for i := range min(len(st.Members), maxMembers) {
		s.member(g.name, &st.Members[i])
	}
}

func (s *samples) member(group string, m *shard.MemberStatus) {
	s.gauge("group_member_owned", "Shards that the member owns.", float64(len(m.Owned)), "group", group, "member", m.ID)
	s.gauge("group_member_due", "Shards that the member should own, by its weight.", m.Due, "group", group, "member", m.ID)
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

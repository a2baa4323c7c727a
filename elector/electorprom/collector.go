// Package electorprom reports an elector to Prometheus.
//
//	c := electorprom.New(e)
//	registry.MustRegister(c)
//	go c.Run(ctx) // counts what happens
//
// The current state (who leads, for how long) is read from the clock at every scrape;
// Run counts events. All series exist from the first scrape on, at 0, so that an alert
// can distinguish "never happened" from "not watched". All have the labels election and
// prefix; the labels that Prometheus gives to its targets distinguish the replicas. Two
// candidates of one election in one process need a label of their own:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"candidate": e.ID()}, registry).MustRegister(c)
//
// Alert rules and a dashboard are in docs/alerts.yml and docs/grafana.json.
package electorprom

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

// Collector is a prometheus.Collector of one Elector. Safe for concurrent use.
type Collector struct {
	elector *elector.Elector
	running atomic.Bool

	all                             set
	renewalTime                     *prometheus.Desc
	renewals, requests, requestTime *prometheus.Desc
	probeUp, probeRuns, probeTime   *prometheus.Desc

	won, changes, overruns prometheus.Counter
	stepDowns              *prometheus.CounterVec

	mu      sync.Mutex
	known   bool          // a candidate leads, as far as is known
	vacant  time.Time     // since when no candidate leads; zero: one leads, or Run is not running
	without time.Duration // total time without a leader before vacant

	newest uint64 // the token of the newest term; only Run uses it
}

// reasons are the reasons of step-downs: each has a series from the start.
var reasons = []elector.Reason{
	elector.ReasonShutdown, elector.ReasonResigned, elector.ReasonHandover, elector.ReasonUnhealthy,
	elector.ReasonLost, elector.ReasonDataLost, elector.ReasonExpired, elector.ReasonFinished, elector.ReasonFailed, elector.ReasonPanicked,
}

// version is the version of the mandate module in this program.
var version = func() string {
	const module = "github.com/mandate-dev/mandate"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" {
			return m.Version
		}
	}
	return "(devel)"
}()

// New returns a Collector. It does no I/O.
func New(e *elector.Elector) *Collector {
	labels := prometheus.Labels{"election": e.Election().Name(), "prefix": e.Election().Prefix()}
	desc := func(name, help string, varying ...string) *prometheus.Desc {
		return prometheus.NewDesc("mandate_"+name, help, varying, labels)
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "mandate_" + name, Help: help, ConstLabels: labels})
	}
	c := &Collector{
		elector:     e,
		renewalTime: desc("renewal_seconds", "How long the confirmed renewals took, from sending until a majority had confirmed."),
		renewals:    desc("renewals_total", "Renewals of this candidate's leases, by result: confirmed, unconfirmed (tried again), refused (the term ended).", "result"),
		requests:    desc("requests_total", "Claims, renewals and releases sent to a Redis node, by result.", "node", "result"),
		requestTime: desc("request_seconds_total", "Time that the answered requests to a Redis node took.", "node"),
		probeUp:     desc("probe_healthy", "1 while the probe passes. The work's probe is there during a term only.", "probe"),
		probeRuns:   desc("probe_runs_total", "Finished runs of a probe, by result.", "probe", "result"),
		probeTime:   desc("probe_seconds_total", "Time that the runs of a probe took.", "probe"),
		won:         counter("elections_won_total", "Terms of this candidate."),
		changes:     counter("leader_changes_total", "Terms of all candidates that this candidate has observed."),
		overruns:    counter("overruns_total", "Terms whose work went on although the lease had ended."),
		stepDowns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mandate_step_downs_total", Help: "Ends of this candidate's terms, by reason.", ConstLabels: labels,
		}, []string{"reason"}),
	}
	for _, r := range reasons {
		c.stepDowns.WithLabelValues(string(r))
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return newGauge(name, help, labels, value)
	}
	c.all = set{
		gauge("is_leader", "1 while this candidate leads, by the clock at the moment of the scrape.", func() float64 { return flag(e.IsLeader()) }),
		gauge("token", "Fencing token of this candidate's term, 0 while it does not lead.", func() float64 { return float64(e.Term().Token()) }),
		gauge("lease_left_seconds", "Time until this candidate's work must stop unless the lease is renewed, 0 while it does not lead.",
			func() float64 { return e.Term().Left().Seconds() }),
		gauge("lease_seconds", "Lease that this candidate uses.", e.Lease().Seconds),
		gauge("able", "1 while this candidate leads or could be elected: running, healthy, not resting, Redis reachable.", func() float64 { return flag(e.Check() == nil) }),
		gauge("leader_known", "1 while this candidate knows a leader; 0 when Redis has not confirmed the leader for a lease.", c.leaderKnown),
		gauge("paused", "1 while no new leader is elected because an operator paused the election, as far as this candidate knows.",
			func() float64 { st := e.Stats(); return flag(st.Paused && !st.LeaderUnknown) }), // whom Redis does not answer knows of no pause any more
		gauge("renewals_queued", "How long renewals have waited in this process lately, as a part of the time-out of a request; above 0.25 it is too busy.",
			func() float64 { return e.Stats().Queued }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "mandate_leaderless_seconds_total", Help: "Time without a leader, as far as this candidate knows.", ConstLabels: labels,
		}, c.leaderless),
		newGauge("build_info", "1, with the version of the mandate module and of Go.", prometheus.Labels{
			"election": e.Election().Name(), "prefix": e.Election().Prefix(), "version": version, "go_version": runtime.Version(),
		}, func() float64 { return 1 }),
		c.won, c.changes, c.overruns, c.stepDowns,
	}
	return c
}

func newGauge(name, help string, labels prometheus.Labels, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mandate_" + name, Help: help, ConstLabels: labels}, value)
}

type set []prometheus.Collector

func (s set) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s {
		c.Describe(ch)
	}
}

func (s set) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s {
		c.Collect(ch)
	}
}

// Describe implements prometheus.Collector. It describes all series, also those of a term: a registry finds a
// Collector by them.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	c.all.Describe(ch)
	for _, d := range []*prometheus.Desc{c.renewalTime, c.renewals, c.requests, c.requestTime, c.probeUp, c.probeRuns, c.probeTime} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. It does no I/O.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.all.Collect(ch)
	st := c.elector.Stats()
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	buckets := map[float64]uint64{}
	for took, n := range st.RenewalsWithin {
		buckets[took.Seconds()] = n
	}
	ch <- prometheus.MustNewConstHistogram(c.renewalTime, st.Renewals.Confirmed, st.RenewalTime.Seconds(), buckets)
	count(c.renewals, float64(st.Renewals.Confirmed), "confirmed")
	count(c.renewals, float64(st.Renewals.Unconfirmed), "unconfirmed")
	count(c.renewals, float64(st.Renewals.Refused), "refused")
	for _, n := range st.Nodes {
		count(c.requests, float64(n.Answered), n.Node, "answered")
		count(c.requests, float64(n.Failed), n.Node, "failed")
		count(c.requestTime, n.Took.Seconds(), n.Node)
	}
	for name, p := range map[string]*health.Status{"candidate": st.Probe, "work": st.WorkProbe} {
		if p == nil {
			continue
		}
		if name != "work" || c.elector.IsLeader() { // a follower has no work that could fail
			ch <- prometheus.MustNewConstMetric(c.probeUp, prometheus.GaugeValue, flag(p.Healthy), name)
		}
		count(c.probeRuns, float64(p.Runs-p.Failures), name, "passed")
		count(c.probeRuns, float64(p.Failures), name, "failed")
		count(c.probeTime, p.Took.Seconds(), name)
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (c *Collector) leaderKnown() float64 {
	c.mu.Lock()
	known := c.known
	c.mu.Unlock()
	return flag(known && (c.elector.IsLeader() || !c.elector.Stats().LeaderUnknown))
}

func (c *Collector) leaderless() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	without := c.without
	if !c.vacant.IsZero() {
		without += time.Since(c.vacant)
	}
	return without.Seconds()
}

// Run counts events until ctx ends. It returns an error if the Collector is running already.
func (c *Collector) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return errors.New("electorprom: the collector is running already")
	}
	defer c.running.Store(false)
	for ev := range c.elector.Election().Observe(ctx) {
		c.count(ev)
	}
	c.leads(false, true) // Run no longer watches
	return nil
}

func (c *Collector) count(ev elector.Event) {
	switch ev.Kind { // health shows in able, and in the reason of a step-down
	case elector.EventElected:
		c.leads(true, false)
		if ev.Token == c.newest {
			return // the term was already counted by an earlier Run
		}
		c.newest = ev.Token // lower, too: after a loss of data
		c.changes.Inc()
		if ev.Incarnation == c.elector.Incarnation() {
			c.won.Inc()
		}
	case elector.EventReleased, elector.EventVacant:
		c.leads(false, false)
	case elector.EventStopping: // observed for this candidate only
		c.stepDowns.WithLabelValues(string(ev.Reason)).Inc()
	case elector.EventOverrun:
		c.overruns.Inc()
	}
}

// leads records whether a candidate leads, and adds up the time without a leader. over means that
// Run no longer watches.
func (c *Collector) leads(known, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.vacant.IsZero() && (known || over) {
		c.without += time.Since(c.vacant)
		c.vacant = time.Time{}
	}
	if !known && !over && c.vacant.IsZero() {
		c.vacant = time.Now()
	}
	c.known = known
}

// Handler returns a handler that serves the metrics of this Collector, of the Go runtime and of
// the process, for programs that have no registry of their own.
func (c *Collector) Handler() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(c, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 5 * time.Second})
}

// NewMember returns a collector of one member of a group of shards. Its few series, with the
// label group, do not grow with the number of shards: use `mandate exporter` to see which shards
// each member owns, and whether all are owned. It does no I/O.
func NewMember(m *shard.Member) prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return newGauge("member_"+name, help, prometheus.Labels{"group": m.Group()}, value)
	}
	left := func() float64 {
		var all []time.Duration
		for _, s := range m.Owned() {
			if t := m.Term(s); t != nil { // else it has just ended
				all = append(all, t.Left())
			}
		}
		if len(all) == 0 {
			return 0
		}
		return slices.Min(all).Seconds()
	}
	return set{
		gauge("shards_owned", "Shards that this member owns, by the clock at the moment of the scrape.", func() float64 { return float64(len(m.Owned())) }),
		gauge("group_shards", "Shards of the group, as far as this member knows.", func() float64 { return float64(m.Shards()) }),
		gauge("able", "1 while this member can be given shards: running, healthy, Redis reachable.", func() float64 { return flag(m.Check() == nil) }),
		gauge("lease_left_seconds", "Shortest time until the work of a shard must stop unless its lease is renewed, 0 while this member owns none.", left),
		gauge("lease_seconds", "Lease of each shard.", m.Lease().Seconds),
	}
}

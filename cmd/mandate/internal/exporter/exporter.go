// Package exporter reports elections to Prometheus as Redis knows them, including elections whose
// candidates are all gone, and programs that are not scraped.
package exporter

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/shard"
)

// These bound the load of scrapes.
const (
	freshFor     = 5 * time.Second // a reading serves all scrapes for this time
	readWithin   = 8 * time.Second // Prometheus waits for 10 s
	statusWithin = 2 * time.Second // longer than a Status takes when a node hangs
	groupWithin  = 4 * time.Second // two time-outs of a node that hangs, one after the other

	electionsAtATime = 128 // so many that candidates that do not answer delay few others
	groupsAtATime    = 16
)

// Exporter serves /metrics. Make one with New.
type Exporter struct {
	quorum  *elector.Quorum
	handler http.Handler

	mu      sync.Mutex // held while Redis is read, so that only one reading runs; guards all fields below
	read    time.Time
	metrics []prometheus.Metric
	vacant  map[string]vacancy // by election, also those of shards
}

// vacancy is what the readings have shown of an election without a leader.
type vacancy struct {
	led   time.Time // when a leader was last seen
	term  time.Time // begin of the last term in the history
	since time.Time // when no leader was seen first; zero: there is one
}

// New makes an Exporter of all elections under the Quorum's prefix. It does no I/O.
func New(q *elector.Quorum) *Exporter {
	e := &Exporter{quorum: q, vacant: map[string]vacancy{}}
	registry := prometheus.NewRegistry()
	registry.MustRegister(e)
	// Two members with one id would have the same series: the others are served all the same.
	e.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	return e
}

// ServeHTTP serves a scrape.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.handler.ServeHTTP(w, r) }

// Describe implements prometheus.Collector. It describes nothing: what there is depends on Redis.
func (e *Exporter) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector with the newest reading. Reading continues after the time-out of
// the client: otherwise the next scrape would have to begin again.
func (e *Exporter) Collect(ch chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.read) >= freshFor {
		e.metrics = e.readMetrics()
		e.read = time.Now()
	}
	for _, m := range e.metrics {
		ch <- m
	}
}

func (e *Exporter) readMetrics() []prometheus.Metric {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	began := time.Now()
	listed, err := e.quorum.Elections(ctx)
	names, shards := shard.Split(listed)
	all := e.readElections(ctx, names)
	groups := e.readGroups(ctx, shards)
	took := time.Since(began)
	missing := err != nil || slices.ContainsFunc(all, func(r doctor.Report) bool {
		return r.StatusErr != nil || r.CandidatesErr != nil && !errors.Is(r.CandidatesErr, elector.ErrDenied)
	}) ||
		slices.ContainsFunc(groups, func(g groupReading) bool { return g.err != nil })
	s := &samples{prefix: e.quorum.Prefix()}
	s.gauge("exporter_list_complete", "1 if all Redis nodes could be searched for elections, and all that were found could be read. 0: some are missing below, or series of them.", flag(!missing))
	s.gauge("exporter_read_seconds", "How long the last reading of all elections took.", took.Seconds())
	for _, n := range e.readNodes(ctx) {
		s.gauge("redis_node_up", "1 if the Redis node answers, 0 if it does not.", flag(n.Reachable || n.Answered), "node", n.Node)
	}
	now := time.Now()
	for i := range all {
		s.election(&all[i], e.leaderless(&all[i], now))
	}
	for i := range groups {
		s.group(&groups[i], e.unowned(&groups[i], now))
	}
	if err == nil { // otherwise elections that are missing now may still exist
		there := map[string]bool{}
		for _, name := range names {
			there[name] = true
		}
		maps.DeleteFunc(e.vacant, func(name string, _ vacancy) bool {
			group, _, _ := shard.OfElection(name)
			return !there[name] && shards[group] == nil
		})
	}
	return s.all
}

// readNodes returns the nodes, from the status of an election that need not exist.
func (e *Exporter) readNodes(ctx context.Context) []elector.NodeStatus {
	el, err := e.quorum.Election("mandate-exporter")
	if err != nil { // impossible with this name
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusWithin)
	defer cancel()
	st, _ := el.Status(ctx) // the status has the errors of the nodes
	return st.Nodes
}

func (e *Exporter) readElections(ctx context.Context, names []string) []doctor.Report {
	all := make([]doctor.Report, len(names))
	concurrently(electionsAtATime, len(names), func(i int) {
		r := &all[i]
		el, err := e.quorum.Election(names[i])
		if err == nil {
			*r = doctor.Read(ctx, el, 1)
			r.CandidatesErr = cmp.Or(r.CandidatesErr, ctx.Err()) // candidates may be missing from a roll that was cut off
			err = r.StatusErr
		}
		r.Election, r.StatusErr = names[i], err
	})
	return all
}

// concurrently calls f with 0 to n-1, at most limit at a time, and waits for all.
func concurrently(limit, n int, f func(i int)) {
	places := make(chan struct{}, limit)
	var wg sync.WaitGroup
	for i := range n {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			f(i)
		})
	}
	wg.Wait()
}

// leaderless returns for how many seconds an election has had no leader: since the reported end of
// the last term, or else since that was first seen. A term whose end was never reported may have
// lasted until a moment ago, and too short is the safe side: an election that has been vacant for a
// day and has no candidates no longer raises an alarm. +Inf: no leader was ever seen.
func (e *Exporter) leaderless(r *doctor.Report, now time.Time) float64 {
	v := e.vacant[r.Election]
	var last elector.TermRecord // zero: unknown, or there is none
	if len(r.Terms) > 0 && !r.Terms[0].Current {
		last = r.Terms[0]
	}
	switch {
	case r.StatusErr != nil:
		return 0
	case r.Leader != nil:
		e.vacant[r.Election] = vacancy{led: now}
		return 0
	case v.since.IsZero(), last.From.After(v.since) && !last.From.Equal(v.term): // in the latter case a leader was elected and vanished between two readings
		v.since = now
	}
	v.term = cmp.Or(last.From, v.term)
	e.vacant[r.Election] = v
	switch {
	case r.TermsErr == nil && len(r.Terms) == 0 && v.led.IsZero(): // counted from now, it would seem missed again after each restart of the exporter
		return math.Inf(1)
	case last.Until.After(v.led): // otherwise it is the end of an earlier term
		return lasting(last.Until, now)
	default:
		return lasting(v.since, now)
	}
}

// lasting returns the seconds since a time, and never zero, so that an alert can test it at once.
func lasting(since, now time.Time) float64 { return max(time.Millisecond, now.Sub(since)).Seconds() }

// groupReading is what was read of one group as a whole, however many shards it has.
type groupReading struct {
	name   string
	status shard.Status
	err    error // if set, nothing is known
}

// readGroups reads the groups. listed has the elections of their shards, which is all that is known
// of a group without members.
func (e *Exporter) readGroups(ctx context.Context, listed map[string]shard.Set) []groupReading {
	all := make([]groupReading, 0, len(listed))
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		all = append(all, groupReading{name: name})
	}
	concurrently(groupsAtATime, len(all), func(i int) {
		ctx, cancel := context.WithTimeout(ctx, groupWithin)
		defer cancel()
		g := &all[i]
		g.status, g.err = shard.Read(ctx, e.quorum, g.name)
		if errors.Is(g.err, shard.ErrNoGroup) { // its members are gone, so its shards have no owners
			g.status, g.err = shard.Status{Group: g.name, Shards: len(listed[g.name])}, nil
			for _, n := range listed[g.name] {
				g.status.Unowned = append(g.status.Unowned, shard.Vacancy{Shard: n})
			}
		}
	})
	return all
}

// unowned returns for how many seconds the shard that is longest without an owner has been seen so.
func (e *Exporter) unowned(g *groupReading, now time.Time) (longest float64) {
	if g.err != nil {
		return 0
	}
	before := map[string]vacancy{}
	for n := range g.status.Shards {
		name := shard.ElectionOf(g.name, n)
		before[name] = e.vacant[name]
		delete(e.vacant, name)
	}
	for _, v := range g.status.Unowned {
		name := shard.ElectionOf(g.name, v.Shard)
		since := cmp.Or(before[name].since, now)
		e.vacant[name] = vacancy{since: since}
		longest = max(longest, lasting(since, now))
	}
	return longest
}

// Package exporter reports elections to Prometheus as Redis knows them, including elections whose
// candidates are all gone, and programs that are not scraped.
package exporter

import (
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
	"github.com/mandate-dev/mandate/elector/shard"
)

// These bound the load of scrapes.
const (
	freshFor   = 5 * time.Second  // a reading serves all scrapes for this time
	readWithin = 8 * time.Second  // Prometheus waits for 10 s
	deniedFor  = 10 * time.Minute // a refused roll call interrupts the subscription
)

// Exporter serves /metrics. Make one with New.
type Exporter struct {
	quorum *elector.Quorum

	handler http.Handler

	mu      sync.Mutex // held while Redis is read, so that only one reading runs; guards all fields below
	read    time.Time
	metrics []prometheus.Metric
	seen    map[string]sight     // by election
	denied  map[string]time.Time // when Redis last refused the roll call, by election
	groups  groups
}

// New makes an Exporter of all elections under the Quorum's prefix. It does no I/O.
func New(q *elector.Quorum) *Exporter {
	e := &Exporter{
		quorum: q, seen: map[string]sight{}, denied: map[string]time.Time{},
		groups: groups{quorum: q, unowned: map[string]map[int]time.Time{}},
	}
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
	used, idle, err := e.quorum.ElectionsByUse(ctx)
	names, shards := shard.Split(append(used, idle...)) // used first: time may be up before all are read
	all := e.readAll(ctx, names, err == nil)
	groups := e.groups.read(ctx, shards, err == nil)
	took := time.Since(began)
	nodes, up := nodesOf(all)
	if len(nodes) == 0 {
		nodes, up = e.readNodes(ctx, err == nil)
	}
	s := &samples{prefix: e.quorum.Prefix()}
	s.gauge("exporter_list_complete", "1 if all Redis nodes could be searched for elections, and all that were found could be read. 0: some are missing below, or series of them.", flag(err == nil && !missing(all, groups)))
	s.gauge("exporter_read_seconds", "How long the last reading of all elections took.", took.Seconds())
	for _, name := range nodes {
		s.gauge("redis_node_up", "1 if an election could be read from the Redis node, 0 if none could.", flag(up[name]), "node", name)
	}
	for i := range all {
		s.election(&all[i])
	}
	for i := range groups {
		s.group(&groups[i])
	}
	return s.all
}

func (e *Exporter) readAll(ctx context.Context, names []string, complete bool) []reading {
	all := make([]reading, len(names))
	var rolls sync.WaitGroup
	concurrently(len(names), func(i int) {
		r := &all[i]
		r.name = names[i]
		denied, was := e.denied[r.name]
		r.readFrom(ctx, e.quorum, !was || time.Since(denied) > deniedFor, &rolls)
	})
	rolls.Wait()
	e.remember(all, complete, time.Now())
	return all
}

// concurrently calls f with 0 to n-1, at most atATime at a time, and waits for all.
func concurrently(n int, f func(i int)) {
	places := make(chan struct{}, atATime)
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

// remember keeps since when elections have been vacant, because the history may lack that, and
// where the roll may not be called. The caller holds mu.
func (e *Exporter) remember(all []reading, complete bool, now time.Time) {
	there := map[string]bool{}
	for i := range all {
		r := &all[i]
		there[r.name] = true
		switch {
		case !r.called:
		case errors.Is(r.rollErr, elector.ErrDenied):
			e.denied[r.name] = now
		default:
			delete(e.denied, r.name)
		}
		if r.err == nil {
			s := e.seen[r.name]
			s.look(r.status.Leader != nil, now)
			s.recorded(r.began, r.ended, now)
			e.seen[r.name], r.leaderless = s, s.lasts(now).Seconds()
			if r.never && !s.hasLed() { // counted from now, it would seem missed again after each restart of the exporter
				r.leaderless = math.Inf(1)
			}
		}
	}
	if complete { // otherwise elections that are missing now may still exist
		maps.DeleteFunc(e.seen, func(name string, _ sight) bool { return !there[name] })
		maps.DeleteFunc(e.denied, func(name string, _ time.Time) bool { return !there[name] })
	}
}

// missing reports whether some of what was found could not be read.
func missing(all []reading, groups []groupReading) bool {
	return slices.ContainsFunc(all, func(r reading) bool { return r.missing() }) ||
		slices.ContainsFunc(groups, func(g groupReading) bool { return g.err != nil })
}

// nodesOf returns the Redis nodes in their order, and which of them any election could be read
// from.
func nodesOf(all []reading) (names []string, up map[string]bool) {
	up = map[string]bool{}
	for i := range all {
		for _, n := range all[i].status.Nodes {
			if _, seen := up[n.Node]; !seen {
				names = append(names, n.Node)
			}
			up[n.Node] = up[n.Node] || n.Reachable
		}
	}
	return names, up
}

// readNodes returns the nodes if there is no reading of an election, because there is no election
// yet or because no node answers. It reads the status of an election that need not exist.
func (e *Exporter) readNodes(ctx context.Context, searched bool) (names []string, up map[string]bool) {
	r := reading{}
	if el, err := e.quorum.Election("mandate-exporter"); err == nil {
		bounded, cancel := context.WithTimeout(ctx, statusWithin)
		defer cancel()
		r.status, _ = el.Status(bounded) // the status has the errors of the nodes
	}
	for i := range r.status.Nodes {
		n := &r.status.Nodes[i]
		n.Reachable = n.Reachable || searched // the search succeeded; the user may lack the right to read this key
	}
	return nodesOf([]reading{r})
}

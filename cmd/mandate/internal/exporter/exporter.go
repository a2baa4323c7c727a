// Package exporter reports elections to Prometheus as Redis knows them, including elections whose
// candidates are all gone, and programs that are not scraped.
package exporter

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/vacancy"
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

	mu     sync.Mutex // held while Redis is read, so that only one reading runs; guards all fields below
	read   time.Time
	text   []byte
	seen   map[string]vacancy.Sight // by election
	denied map[string]time.Time     // when Redis last refused the roll call, by election

	groups groups
}

// New makes an Exporter of all elections under the Quorum's prefix. It does no I/O.
func New(q *elector.Quorum) *Exporter {
	return &Exporter{quorum: q, seen: map[string]vacancy.Sight{}, denied: map[string]time.Time{}, groups: groups{quorum: q, unowned: map[string]map[int]time.Time{}}}
}

// ServeHTTP serves a scrape.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(e.metrics()) // the client may be gone
}

// metrics returns the newest reading. Reading continues after the time-out of the client: otherwise
// the next scrape would have to begin again.
func (e *Exporter) metrics() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.text != nil && time.Since(e.read) < freshFor {
		return e.text
	}
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	began := time.Now()
	used, idle, err := e.quorum.ElectionsByUse(ctx)
	names, shards := shard.Split(append(used, idle...)) // used first: time may be up before all are read
	all := e.readAll(ctx, names, err == nil)
	groups := e.groups.read(ctx, shards, err == nil)
	e.read = time.Now()
	names, up := nodesOf(all)
	if len(names) == 0 {
		names, up = e.readNodes(ctx, err == nil)
	}
	e.text = write(e.quorum.Prefix(), all, groups, err == nil && !missing(all, groups), e.read.Sub(began), names, up)
	return e.text
}

func (e *Exporter) readAll(ctx context.Context, names []string, complete bool) []reading {
	all := make([]reading, len(names))
	type order struct {
		*reading
		mayCall bool
	}
	next := make(chan order)
	var wg, rolls sync.WaitGroup
	for range min(atATime, len(names)) {
		wg.Go(func() {
			for r := range next {
				r.readFrom(ctx, e.quorum, r.mayCall, &rolls)
			}
		})
	}
	for i, name := range names {
		all[i].name = name
		denied, was := e.denied[name]
		next <- order{&all[i], !was || time.Since(denied) > deniedFor}
	}
	close(next)
	wg.Wait()
	rolls.Wait()
	e.remember(all, complete, time.Now())
	return all
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
			s.Look(r.status.Leader != nil, now)
			s.Recorded(r.began, r.ended, now)
			e.seen[r.name], r.leaderless = s, s.For(now).Seconds()
			if r.never && !s.Led() { // counted from now, it would seem missed again after each restart of the exporter
				r.leaderless = math.Inf(1)
			}
		}
	}
	if !complete { // elections that are missing now may still exist
		return
	}
	for name := range e.seen {
		if !there[name] {
			delete(e.seen, name)
		}
	}
	for name := range e.denied {
		if !there[name] {
			delete(e.denied, name)
		}
	}
}

// missing reports whether some of what was found could not be read.
func missing(all []reading, groups []groupReading) bool {
	return slices.ContainsFunc(all, func(r reading) bool { return r.missing() }) ||
		slices.ContainsFunc(groups, func(g groupReading) bool { return g.err != nil })
}

func able(roll []elector.CandidateStatus) int {
	n := 0
	for _, c := range roll {
		if c.Able() {
			n++
		}
	}
	return n
}

func observers(roll []elector.CandidateStatus) int {
	n := 0
	for _, c := range roll {
		if c.Role == elector.RoleObserving {
			n++
		}
	}
	return n
}

// write formats the readings as Prometheus text, family by family.
func write(prefix string, all []reading, groups []groupReading, complete bool, took time.Duration, nodes []string, up map[string]bool) []byte {
	var b bytes.Buffer
	w := &writer{b: &b, prefix: prefix}
	w.family("mandate_exporter_list_complete", "1 if all Redis nodes could be searched for elections, and all that were found could be read. 0: some are missing below, or series of them.")
	w.sample(flag(complete))
	w.family("mandate_exporter_read_seconds", "How long the last reading of all elections took.")
	w.sample(took.Seconds())
	w.family("mandate_redis_node_up", "1 if an election could be read from the Redis node, 0 if none could.")
	for _, name := range nodes {
		w.sample(flag(up[name]), "node", name)
	}
	w.each(all, "mandate_election_leader_known", "1 if a candidate holds the lock on a majority of the nodes, 0 if none does. Absent if that cannot be read.",
		func(r *reading) (float64, bool) { return flag(r.status.Leader != nil), r.err == nil })
	w.each(all, "mandate_election_leaderless_seconds", "Time since the last leader, 0 while there is one. Of a leader that vanished: since it was first missed here. +Inf: none was ever seen.",
		func(r *reading) (float64, bool) { return r.leaderless, r.err == nil })
	w.each(all, "mandate_election_paused", "1 while an operator wants no new leader.",
		func(r *reading) (float64, bool) { return flag(r.status.Paused), r.err == nil })
	w.each(all, "mandate_election_candidates", "Candidates that answered the roll call, without observers. Absent if it could not be called.",
		func(r *reading) (float64, bool) { return float64(len(r.roll) - observers(r.roll)), r.rollErr == nil })
	w.each(all, "mandate_election_observers", "Observers that answered the roll call: they never campaign. Absent if it could not be called.",
		func(r *reading) (float64, bool) { return float64(observers(r.roll)), r.rollErr == nil })
	w.each(all, "mandate_election_candidates_able", "Candidates that lead or could be elected.",
		func(r *reading) (float64, bool) { return float64(able(r.roll)), r.rollErr == nil })
	writeGroups(w, groups)
	return b.Bytes()
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

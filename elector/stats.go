package elector

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/health"
)

// Stats counts what an Elector did since New.
type Stats struct {
	// Renewals counts renewals by their outcome.
	Renewals struct {
		Confirmed   uint64 // by a majority, in time
		Unconfirmed uint64 // tried again soon
		Refused     uint64 // a majority no longer held the lock: the end of the term
	}
	// RenewalTime is how long all confirmed renewals took together, each from when it was sent
	// until a majority had confirmed it. RenewalsWithin is how many of them took at most the
	// duration in the key, for a few durations that are always the same.
	RenewalTime    time.Duration
	RenewalsWithin map[time.Duration]uint64
	// Nodes counts the requests to each node (claims, renewals, releases), in the order of the quorum.
	Nodes []struct {
		Node     string
		Answered uint64
		Failed   uint64        // errors, and no answer in time
		Took     time.Duration // by all answered requests together
	}
	// Probe and WorkProbe are the statuses of Config.Probe and Config.WorkProbe, with what they
	// counted since New; nil where there is no probe.
	Probe, WorkProbe *health.Status
	// LeaderUnknown is true when the lease of the last observed leader has expired
	// and no majority has answered since. It is maintained only while Observe is
	// running.
	LeaderUnknown bool
	// Paused is true while the election is paused, as far as this candidate knows: a
	// leader learns of a pause with its renewals, a follower with a refused claim.
	Paused bool
	// Queued is for how long renewals have waited in this process lately, as a part of the time-out of a request (L/5). Above
	// 0.25 the process is too busy: terms may end, and it claims in no further election.
	Queued float64
}

// latencyBounds are the durations of RenewalsWithin: from a round trip on one host to a quarter of a
// long lease.
var latencyBounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second,
}

func probeStatus(r *health.Runner) *health.Status {
	if r == nil {
		return nil
	}
	return new(r.Status())
}

// counters count what Stats reports. Safe for concurrent use.
type counters struct {
	log   *slog.Logger
	names []string // of the nodes
	lease time.Duration

	mu    sync.Mutex  // of all below
	stats Stats       // of renewals, and of requests by node
	nodes []nodeCount // by node
}

// nodeCount is what is known of one node.
type nodeCount struct {
	failing bool       // it was logged as not responding, or as answering with errors
	refusal *NodeError // the newest error, if the node answered with it; otherwise nil
	silent  time.Time  // since when the node has not answered; zero: it does
	failed  time.Time  // when the newest error occurred
	well    time.Time  // when a request first succeeded after that
	logged  lasting
}

// What becomes of a node. An operator who reads "not responding" checks the network, and would find
// that a node is up which answers with errors.
var (
	unresponsive = phrases{slog.LevelWarn, "redis node is not responding", "redis node still unresponsive", "redis node responds again"}
	answering    = phrases{slog.LevelWarn, "redis node answered with an error", "redis node still answers with an error", "redis node responds again"}
)

func newCounters(log *slog.Logger, names []string, lease time.Duration) *counters {
	c := &counters{log: log, names: names, lease: lease, nodes: make([]nodeCount, len(names)), stats: Stats{RenewalsWithin: map[time.Duration]uint64{}}}
	c.stats.Nodes = slices.Grow(c.stats.Nodes, len(names))[:len(names)]
	for i, name := range names {
		c.stats.Nodes[i].Node = name
	}
	for _, bound := range latencyBounds {
		c.stats.RenewalsWithin[bound] = 0
	}
	return c
}

func (c *counters) read() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.stats
	st.RenewalsWithin = maps.Clone(st.RenewalsWithin)
	st.Nodes = slices.Clone(st.Nodes)
	return st
}

// request counts a request. It logs when a node does not answer or answers with an error, again
// while that lasts, and once when the node responds again. It is called on many goroutines.
func (c *counters) request(node int, took time.Duration, err error) {
	n, requests, now := &c.nodes[node], &c.stats.Nodes[node], time.Now()
	c.mu.Lock()
	if err == nil {
		requests.Answered++
		requests.Took += took
		n.silent = time.Time{}
		if n.well.Before(n.failed) {
			n.well = now
		}
		// A node that answers with errors may refuse only some requests, such as renewals but not claims, and the condition
		// would end and begin with every lease: it ends only after a lease without errors.
		well, ended := n.well, n.failing && (n.refusal == nil || now.Sub(n.failed) >= c.lease)
		n.failing = n.failing && !ended
		c.mu.Unlock()
		if ended {
			n.logged.note(c.log.With("node", c.names[node]), unresponsive, "", well)
		}
		return
	}
	words := unresponsive
	requests.Failed++
	n.failing, n.refusal, n.failed = true, nil, now
	if rediserr.Answered(err) {
		words = answering
		n.silent = time.Time{}
		_ = errors.As(err, &n.refusal)
	} else if n.silent.IsZero() {
		n.silent = now.Add(-took)
	}
	c.mu.Unlock()
	n.logged.note(c.log, words, "failing", now, "error", err)
}

// votesWith returns the nodes, which have these identities, with what is wrong with them for this candidate.
func (c *counters) votesWith(identities []string) []peers.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]peers.Node, len(c.nodes))
	for i := range c.nodes {
		n, shown := &c.nodes[i], &all[i]
		shown.Name, shown.Identity = c.names[i], identities[i]
		if n.failing && n.refusal != nil {
			shown.Refusal, shown.Remedy = protocol.Clip(n.refusal.Answer(), peers.MaxRefusal), protocol.Clip(n.refusal.Advice(), peers.MaxRemedy)
		}
		if !n.silent.IsZero() {
			shown.SilentFor = time.Since(n.silent)
		}
	}
	return all
}

// renewed counts a renewal that a majority has confirmed in time.
func (c *counters) renewed(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Renewals.Confirmed++
	c.stats.RenewalTime += took
	for _, bound := range latencyBounds {
		if took <= bound {
			c.stats.RenewalsWithin[bound]++
		}
	}
}

// count counts a renewal that was not.
func (c *counters) count(renewal func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	renewal(&c.stats)
}

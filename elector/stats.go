package elector

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/health"
)

// Stats counts what an Elector did since New.
type Stats struct {
	Renewals RenewalStats
	Nodes    []NodeStats // in the order of the quorum
	// Probe and WorkProbe tell of Config.Probe and Config.WorkProbe; nil where there
	// is none.
	Probe, WorkProbe *ProbeStats
	// LeaderUnknown is true when the lease of the last observed leader has expired
	// and no majority has answered since. It is maintained only while Observe is
	// running.
	LeaderUnknown bool
}

// RenewalStats counts renewals by their outcome.
type RenewalStats struct {
	Confirmed   uint64 // by a majority, in time
	Unconfirmed uint64 // tried again soon
	Refused     uint64 // a majority no longer held the lock: the end of the term
}

// NodeStats counts the requests to one node: claims, renewals, releases.
type NodeStats struct {
	Node     string
	Answered uint64
	Failed   uint64        // errors, and no answer in time
	Took     time.Duration // of those that were answered, in all
}

// ProbeStats counts the runs of a probe.
type ProbeStats struct {
	Healthy  bool
	Runs     uint64
	Failures uint64
	Took     time.Duration // in all
}

// Stats tells what happened so far. No I/O. Safe for concurrent use.
func (e *Elector) Stats() Stats {
	e.mu.Lock()
	st := Stats{Renewals: e.renewed, Nodes: make([]NodeStats, len(e.nodes)), LeaderUnknown: e.election.unknown.Load()}
	for i, n := range e.nodes {
		st.Nodes[i] = n.NodeStats
	}
	e.mu.Unlock()
	for i, name := range e.quorum.nodes.Names() {
		st.Nodes[i].Node = name
	}
	st.Probe, st.WorkProbe = probeStats(e.candidate), probeStats(e.worker)
	return st
}

func probeStats(r *health.Runner) *ProbeStats {
	if r == nil {
		return nil
	}
	st := r.Status()
	return &ProbeStats{Healthy: st.Healthy, Runs: st.Runs, Failures: st.Failures, Took: st.Took}
}

// nodeCount is what is known of one node.
type nodeCount struct {
	NodeStats

	mute bool // it was said not to answer
}

// heardNode counts a request, and logs once that a node does not answer or answers with
// an error, and once that it votes again. It is called on many goroutines.
func (e *Elector) heardNode(node int, took time.Duration, err error) {
	e.mu.Lock()
	n := &e.nodes[node]
	was := n.mute
	n.mute = err != nil
	if err == nil {
		n.Answered++
		n.Took += took
	} else {
		n.Failed++
	}
	e.mu.Unlock()
	switch {
	case err != nil && !was && quorum.Answered(err):
		// Whoever reads "not responding" looks at the network, and finds a node that is up.
		e.log.Warn("redis node answered with an error", "error", err)
	case err != nil && !was:
		e.log.Warn("redis node is not responding", "error", err)
	case err == nil && was:
		e.log.Info("redis node responds again", "node", e.quorum.nodes.Names()[node])
	}
}

// countRenewal notes how a renewal ended.
func (e *Elector) countRenewal(outcome func(*RenewalStats) *uint64) {
	e.mu.Lock()
	*outcome(&e.renewed)++
	e.mu.Unlock()
}

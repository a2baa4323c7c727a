package elector

import (
	"context"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// queryResult is the outcome of a query, and what was known when it was sent.
type queryResult struct {
	status   Status
	history  []Event
	messages []Event // that arrived before
	changes  int     // observer.changes
	err      error
}

func (a queryResult) reading() reading {
	return reading{leader: a.status.Leader, highest: a.status.highest(), history: a.history}
}

// highest returns the highest counter of the nodes.
func (st Status) highest() (highest uint64) {
	for _, n := range st.Nodes {
		highest = max(highest, n.Fence)
	}
	return highest
}

// query runs read on a goroutine of its own: a node that hangs must not delay the events of the
// candidate in this process.
func (el *Election) query(ctx context.Context, was reported, changes int, messages []Event) <-chan queryResult {
	answer := make(chan queryResult, 1)
	go func() {
		a := el.read(ctx, was, messages)
		a.changes = changes
		answer <- a
	}()
	return answer
}

// read queries Redis, for an observer that has reported was. It blocks.
func (el *Election) read(ctx context.Context, was reported, messages []Event) (a queryResult) {
	a.messages = messages
	if a.status, a.err = el.Status(ctx); a.err != nil || !was.needsHistory(a.status.Leader, len(messages) > 0) {
		return a
	}
	sent := time.Now()
	a.history = el.recent(ctx, statusTimeout/3)
	if l := a.status.Leader; l != nil {
		l.LeaseLeft = max(0, l.LeaseLeft-time.Since(sent))
	}
	return a
}

// needsHistory reports whether anything has changed, so that the history must be read. While the
// leader stays the same, an observer sends only one request to each node per lease.
func (s reported) needsHistory(l *Leader, messages bool) bool {
	switch {
	case !s.begun:
		return true
	case l == nil:
		return s.ending == notEnded || messages
	default:
		return l.Token != s.term.Token || !l.sameLife(s.term) || !l.agreed
	}
}

// recentEntries is how many entries of the history an observer reads: 32 terms, or fewer where
// pauses stand among them.
const recentEntries = 64

// recent returns the newest events of all nodes; none where the history can't be read.
func (el *Election) recent(ctx context.Context, limit time.Duration) []Event {
	var events []Event
	nodes, _ := registry.RecallMajority(ctx, el.nodes, el.keys, recentEntries, limit) // best effort: a user that may not read it sees less
	for _, entries := range nodes {
		for _, entry := range slices.Backward(entries) {
			if ev, err := parseEvent(entry); err == nil && ev.Election == el.name {
				events = append(events, ev)
			}
		}
	}
	return events
}

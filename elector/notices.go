package elector

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// notices are what messages said since the last claim. Each may be forged, so none
// hides another: a node's newest report counts, and an election that is announced
// makes the front row wait a moment longer, but never drops its claim.
type notices struct {
	wake, events map[int]release // the newest report of a release, by node; events holds those on wake, too
	elected      uint64          // the highest token that was announced as elected
	claimAt      time.Time       // because of a release; zero: there is no reason to
	confirmAt    time.Time       // the same, when a new leader was announced since
	resubscribed bool            // something may have been missed
	postponed    bool            // the planned claim, because of an election
}

// release is a report that a term has ended.
type release struct {
	token uint64
	next  string // the incarnation that goes first, or a quorum.Reservation for it; may be empty
}

// receive runs on the subscription's goroutine.
func (w *waiter) receive(s pubsub.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch s.Kind {
	case pubsub.Failed: // the lease's end is waited for in any case
		w.e.sayDeaf(s.Err)
		return
	case pubsub.Subscribed:
		if s.Channel != w.e.keys.Events {
			return
		}
		w.notices.resubscribed = true
	case pubsub.Message:
		if !w.note(s) {
			return
		}
	}
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// note takes a message; false when it changes nothing. Garbage changes nothing:
// whoever writes there can't make us do more than ask.
func (w *waiter) note(s pubsub.Signal) bool {
	if s.Channel != w.e.keys.Wake {
		ev, err := ParseEvent(s.Payload)
		if err != nil || ev.Election != w.e.cfg.Election {
			return false
		}
		switch ev.Kind {
		case EventElected:
			return w.elected(ev.Token)
		case EventReleased:
			r := release{token: ev.Token}
			if ev.Next != "" {
				r.next = quorum.Reservation(ev.Next)
			}
			return w.released(s.Node, r, false)
		default:
			return false
		}
	}
	m, ok := quorum.ParseWakeMessage(s.Payload)
	switch {
	case !ok:
		return false
	case m.Elected:
		return w.elected(m.Token)
	default:
		return w.released(s.Node, release{token: m.Token, next: m.First}, true)
	}
}

// elected notes that a leader was announced which is newer than the one that the last
// claim saw.
func (w *waiter) elected(token uint64) bool {
	newer := token > max(w.token, w.notices.elected)
	w.notices.elected = max(w.notices.elected, token)
	return newer
}

// released notes a node's report. The end of a term before the one that the last
// claim saw is old.
func (w *waiter) released(node int, r release, onWake bool) bool {
	if r.token < w.token {
		return false
	}
	n := &w.notices
	if n.events == nil {
		n.wake, n.events = map[int]release{}, map[int]release{}
	}
	if was, known := n.events[node]; known && !onWake && was.token == r.token && r.next == "" {
		return false // the report on wake knew more
	}
	old, known := n.events[node]
	n.events[node] = r
	changed := !known || old != r
	if onWake {
		old, known = n.wake[node]
		n.wake[node] = r
		changed = changed || !known || old != r
	}
	return changed
}

// forget drops what is older than the answer of a claim: it was received while that
// was under way.
func (n *notices) forget(token uint64) {
	for _, reports := range []map[int]release{n.wake, n.events} {
		for node, r := range reports {
			if r.token < token {
				delete(reports, node)
			}
		}
	}
	if n.elected <= token {
		n.elected = 0
	}
	n.claimAt, n.confirmAt = time.Time{}, time.Time{}
}

// names counts the nodes that name each candidate as the one that goes first.
func names(reports map[int]release) map[string]int {
	count := map[string]int{}
	for _, r := range reports {
		if r.next != "" {
			count[r.next]++
		}
	}
	return count
}

// replaced tells whether a leader was announced that is newer than the terms whose end
// a majority reported.
func (n *notices) replaced(reports map[int]release, majority int) bool {
	newest := 0
	for _, r := range reports {
		if r.token >= n.elected {
			newest++
		}
	}
	return newest < majority
}

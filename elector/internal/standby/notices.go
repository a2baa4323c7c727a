package standby

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// notices are what messages said since the last claim. Each may be forged, so none
// hides another: a node's newest report counts, and an election that is announced
// makes the front row wait a moment longer, but never drops its claim.
type notices struct {
	wake, events map[int]quorum.WakeMessage // the newest report of a release, by node; events holds those on wake, too
	elected      uint64                     // the highest token that was announced as elected
	claimAt      time.Time                  // because of a release; zero: there is no reason to
	confirmAt    time.Time                  // the same, when a new leader was announced since
	resubscribed bool                       // something may have been missed
	postponed    bool                       // the planned claim, because of an election
}

// received takes what arrived; false when it changes nothing. Garbage changes nothing:
// whoever writes there can't make us do more than ask.
func (d *decision) received(s pubsub.Signal, k quorum.Keys, parseEvent func(string) (quorum.WakeMessage, bool)) bool {
	switch s.Kind {
	case pubsub.Subscribed:
		d.notices.resubscribed = d.notices.resubscribed || s.Channel == k.Events
		return s.Channel == k.Events
	case pubsub.Message:
	case pubsub.Failed: // the lease's end is waited for in any case
		return false
	}
	onWake := s.Channel == k.Wake
	parse := parseEvent
	if onWake {
		parse = quorum.ParseWakeMessage
	}
	m, ok := parse(s.Payload)
	switch {
	case !ok:
		return false
	case m.Elected:
		return d.elected(m.Token)
	default:
		return d.released(s.Node, m, onWake)
	}
}

// elected notes that a leader was announced which is newer than the one that the last
// claim saw.
func (d *decision) elected(token uint64) bool {
	newer := token > max(d.token, d.notices.elected)
	d.notices.elected = max(d.notices.elected, token)
	return newer
}

// released notes a node's report. The end of a term before the one that the last
// claim saw is old.
func (d *decision) released(node int, r quorum.WakeMessage, onWake bool) bool {
	if r.Token < d.token {
		return false
	}
	n := &d.notices
	if n.events == nil {
		n.wake, n.events = map[int]quorum.WakeMessage{}, map[int]quorum.WakeMessage{}
	}
	if was, known := n.events[node]; known && !onWake && was.Token == r.Token && r.First == "" {
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
	for _, reports := range []map[int]quorum.WakeMessage{n.wake, n.events} {
		for node, r := range reports {
			if r.Token < token {
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
func names(reports map[int]quorum.WakeMessage) map[string]int {
	count := map[string]int{}
	for _, r := range reports {
		if r.First != "" {
			count[r.First]++
		}
	}
	return count
}

// replaced reports whether a leader was announced that is newer than the terms whose end
// a majority reported.
func (n *notices) replaced(reports map[int]quorum.WakeMessage, majority int) bool {
	newest := 0
	for _, r := range reports {
		if r.Token >= n.elected {
			newest++
		}
	}
	return newest < majority
}

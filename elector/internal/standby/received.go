package standby

import (
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// received processes a signal, and reports whether it changes anything. An invalid message
// changes nothing: anyone who publishes on the channels can at most make this candidate query Redis.
func (d *decision) received(s pubsub.Signal, k *protocol.Keys, parseEvent func(string) (protocol.WakeMessage, bool)) bool {
	switch s.Kind {
	case pubsub.Subscribed:
		d.notices.resubscribed = d.notices.resubscribed || s.Channel == k.Events
		return s.Channel == k.Events
	case pubsub.Message:
	case pubsub.Failed: // the end of the lease still causes a claim
		return false
	}
	onWake := s.Channel == k.Wake
	parse := parseEvent
	if onWake {
		parse = protocol.ParseWakeMessage
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

// elected records the announcement of a leader, and reports whether it is newer than the leader
// that the last claim saw and than all announced since.
func (d *decision) elected(token uint64) bool {
	newer := token > max(d.token, d.notices.elected)
	d.notices.elected = max(d.notices.elected, token)
	return newer
}

// released records a node's report of the end of a term, and reports whether it is news. It
// ignores the end of a term before the one that the last claim saw.
func (d *decision) released(node int, r protocol.WakeMessage, onWake bool) bool {
	if r.Token < d.token {
		return false
	}
	n := &d.notices
	if n.events == nil {
		n.wake, n.events = map[int]protocol.WakeMessage{}, map[int]protocol.WakeMessage{}
	}
	if was, known := n.events[node]; known && !onWake && was.Token == r.Token && r.First == "" {
		return false // the report on the wake channel had more details
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

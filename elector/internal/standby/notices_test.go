package standby

import (
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// keys are those of the election; event writes a message of its events channel, in the
// format of parseEvent.
var keys = protocol.KeysOf("mandate", "orders")

const eventPrefix = "event "

func event(text string) string { return eventPrefix + text }

func parseEvent(payload string) (protocol.WakeMessage, bool) {
	text, ok := strings.CutPrefix(payload, eventPrefix)
	if !ok {
		return protocol.WakeMessage{}, false
	}
	return protocol.ParseWakeMessage(text)
}

// follower has claimed, and saw the term 7.
func follower(nodes int) *decision {
	const lease = 10 * time.Second
	return &decision{
		Settings: Settings{Incarnation: "me", Nodes: nodes, Lease: lease, RetryEvery: lease / 16, ReservedFor: lease / 4},
		token:    7,
	}
}

// A message that says nothing new wakes nobody: else whoever repeats one drives the
// claims of all. One that says something new always does: else a release is slept through.
func TestNoticesWakeForWhatIsNew(t *testing.T) {
	type received struct {
		node    int
		channel string
		payload string
		wakes   bool
	}
	for name, c := range map[string][]received{
		"releases of one node": {
			{0, keys.Wake, "released 6 ", false}, // before what we saw
			{0, keys.Wake, "released 7 ", true},
			{0, keys.Wake, "released 7 ", false},
			{0, keys.Wake, "released 8 ", true},
			{0, keys.Wake, "released 7 b", true}, // one that was forged must not hide it
		},
		"the same of each node": {
			{0, keys.Wake, "released 7 ", true}, {1, keys.Wake, "released 7 ", true}, {2, keys.Wake, "released 7 ", true}, {2, keys.Wake, "released 7 ", false},
		},
		"on events": {
			{0, keys.Events, event("released 6 "), false},
			{0, keys.Events, event("released 7 "), true},
			{0, keys.Events, event("released 7 "), false},
			{0, keys.Events, event("released 7 !b"), true},
			{0, keys.Events, "of another election", false},
			{0, keys.Events, event("stopping 9"), false},
			{0, keys.Events, "released 9 ", false},
		},
		"wake knows more than events": {
			{0, keys.Wake, "released 7 b", true}, {0, keys.Events, event("released 7 "), false}, {0, keys.Wake, "released 7 b", false},
		},
		"events first": {
			{0, keys.Events, event("released 7 "), true}, {0, keys.Wake, "released 7 ", true}, // the front row counts those on wake
		},
		"elections": {
			{0, keys.Wake, "elected 7", false}, {0, keys.Wake, "elected 9", true}, {1, keys.Wake, "elected 9", false}, {1, keys.Wake, "elected 8", false},
			{0, keys.Events, event("elected 9"), false}, {0, keys.Events, event("elected 10"), true}, {0, keys.Wake, "elected 10", false},
			{0, keys.Events, "of another election", false}, {0, keys.Wake, "elected 11", true},
		},
		"garbage": {
			{0, keys.Wake, "", false}, {0, keys.Wake, "9", false}, {0, keys.Wake, "released", false}, {0, keys.Wake, "released x", false},
			{0, keys.Wake, "elected x", false}, {0, keys.Wake, "elected -1", false}, {0, keys.Wake, "elected 99999999999999999999", false},
			{0, keys.Wake, event("released 9 "), false}, {0, keys.Wake, "7 b", false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := follower(3)
			for i, h := range c {
				s := pubsub.Signal{Kind: pubsub.Message, Node: h.node, Channel: h.channel, Payload: h.payload}
				if wakes := d.received(s, &keys, parseEvent); wakes != h.wakes {
					t.Errorf("%d: %q wakes: %v, want %v", i, h.payload, wakes, h.wakes)
				}
			}
		})
	}
}

// Reports of the end of an older term are no reason to run against a newer leader, unless
// a majority tells of the newer one's end.
func TestNoticesOfALeaderThatWasReplaced(t *testing.T) {
	for _, c := range []struct {
		released [3]uint64 // by node
		replaced bool
	}{{[3]uint64{7, 7, 7}, true}, {[3]uint64{7, 7, 9}, true}, {[3]uint64{7, 9, 9}, false}, {[3]uint64{10, 9, 7}, false}} {
		n, reports := notices{elected: 9}, map[int]protocol.WakeMessage{}
		for node, token := range c.released {
			reports[node] = protocol.WakeMessage{Token: token}
		}
		if got := n.replaced(reports, 2); got != c.replaced {
			t.Errorf("%v: %v", c.released, got)
		}
	}
}

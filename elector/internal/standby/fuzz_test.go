package standby

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// FuzzMessages has a follower receive two messages on each channel. It may be made to
// claim earlier, and nothing else; outside of the front row, to wait a little longer.
func FuzzMessages(f *testing.F) {
	f.Add("released 5 ABC", "elected 6", event("elected 6"), "{")
	f.Add("released 9007199254740991 x", "elected 18446744073709551615", event("elected 9007199254740991"), "")
	f.Add("released -1", "elected", event("released 7 !"), "released 7 !ABC")
	f.Fuzz(func(t *testing.T, wake1, wake2, event1, event2 string) {
		for _, inRow := range []bool{false, true} {
			now := time.Now()
			d := follower(3)
			d.holder, d.token, d.waiters, d.inRow = "b/B/1", 5, 1, inRow
			d.at = now.Add(d.Lease)
			end := d.at
			for i, payload := range []string{wake1, event1, wake2, event2} {
				channel := keys.Wake
				if i%2 == 1 {
					channel, payload = keys.Events, event(payload)
				}
				d.received(pubsub.Signal{Kind: pubsub.Message, Node: i % 3, Channel: channel, Payload: payload}, &keys, parseEvent)
				if at := d.next(now); at.After(end) && (inRow || at.After(end.Add(d.Lease))) {
					t.Fatalf("%q puts the next claim off by %v", payload, at.Sub(end))
				}
			}
		}
	})
}

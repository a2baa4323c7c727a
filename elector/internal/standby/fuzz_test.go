package standby

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// FuzzMessages has a follower receive messages of three nodes. It may be made to claim earlier, and
// nothing else.
func FuzzMessages(f *testing.F) {
	f.Add("1 released 5 ABC {", "1 elected 6  {", "1 released 5 ABC {}", "{")
	f.Add("1 released 9007199254740991 x x", "1 elected 18446744073709551615  x", "1 elected 9007199254740991  {}", "")
	f.Add("1 released -1 x x", "1 elected", "1 released 7 ! x", "1 released 7 !ABC ")
	f.Fuzz(func(t *testing.T, one, two, three, four string) {
		for _, followers := range []int{1, 1000} {
			now := time.Now()
			d := follower(3)
			d.holder, d.token, d.followers = "b/B/1", 5, followers
			d.at = now.Add(d.Lease)
			end := d.at
			for i, payload := range []string{one, two, three, four} {
				if m := parse(payload); m.Kind == protocol.KindReleased {
					d.termEnded(i%3, m)
				}
				if at := d.next(now); at.After(end) {
					t.Fatalf("%q puts the next claim off by %v", payload, at.Sub(end))
				}
			}
		}
	})
}

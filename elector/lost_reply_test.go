package elector_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector"
)

// deadlineAfter is how long a term of the default timing may be believed, counted
// from the moment before its newest renewal was sent.
const deadlineAfter = shortLease - shortLease/100 - 2*time.Millisecond - shortLease/4

func TestLostRenewRepliesAreNeverBelieved(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(2*shortLease + time.Second)
		calls := c.Nodes[0].Took()
		var sent time.Time // of the newest renewal that was answered
		for _, cl := range calls {
			if cl.Script == "renew" {
				sent = cl.At
			}
		}
		nd := c.Nodes[0]
		nd.On(func(cl call, p *server.Peer) bool {
			if cl.Script != "renew" {
				return false
			}
			nd.Run(cl)
			p.Close()
			return true
		})
		wantReason(t, term, shortLease, elector.ReasonExpired)
		if d := time.Since(sent); d != deadlineAfter-wire {
			t.Errorf("believed for %v after the last renewal that was answered, want %v", d+wire, deadlineAfter)
		}
		if len(a.Log.Lines("cannot renew the lease")) != 1 {
			t.Errorf("logged %d times", len(a.Log.Lines("cannot renew the lease")))
		}
	})
}

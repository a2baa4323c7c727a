package simtest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// TestLeaderToken cuts a sitting leader from one node after the other, each time
// until its lock there has lapsed and a follower's claim has been granted by that
// one node. The failed claims raise the counters; Elector.Leader must still tell
// the token that the leader has.
func TestLeaderToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(Options{Seed: 1, Nodes: 3, Strict: true})
		s.succession = elector.SuccessionRace // nobody may take over by right
		for _, h := range s.hosts {
			h.boot("")
		}
		s.awaitLeader(2 * s.t.lease)
		leader := s.leader()
		for _, k := range leader.host.links {
			s.net.change(func() { k.holdReq, k.holdRep = true, true })
			for range 8 {
				s.until(time.Now().Add(s.t.lease / 5))
				alarm(s)
			}
			s.heal([]*link{k}, true)
			s.until(time.Now().Add(2 * s.t.lease))
		}
		if s.leader() != leader {
			t.Error("a leader that always had a majority lost its term")
		}
		s.agree()
		s.healAll()
		s.halted()
		s.close()
		complain(t, s.report())
	})
}

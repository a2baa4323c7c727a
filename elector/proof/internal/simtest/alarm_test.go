package simtest

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// The plots and TestLeaderToken stand on this: a false alarm makes the candidates claim
// a lock that is held.
func TestAlarmCausesClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSim(Options{Seed: 1, Nodes: 3, Lease: 10 * time.Second})
		s.succession = elector.SuccessionRace
		var claims atomic.Int64
		for _, h := range s.hosts {
			for _, l := range h.links {
				l.onCommand = func(p *proc, c command) {
					if all := c.elections(); len(all) > 0 && all[0].kind == claim {
						claims.Add(1)
					}
					s.onCommand(p, c)
				}
			}
			h.boot("")
		}
		s.awaitLeader(2 * s.t.lease)
		s.until(time.Now().Add(2 * s.t.lease))
		during := func(ring func(*Sim)) int64 {
			before := claims.Load()
			for range 14 {
				ring(s)
				s.until(time.Now().Add(s.t.lease / 7))
			}
			return claims.Load() - before
		}
		if quiet, rung := during(func(*Sim) {}), during(alarm); rung < 3*quiet {
			t.Errorf("%d claims in two leases with alarms, %d without", rung, quiet)
		}
		s.healAll()
		s.halted()
		s.close()
		complain(t, s.report())
	})
}

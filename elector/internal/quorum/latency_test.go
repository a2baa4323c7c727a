package quorum

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// How far away a node may be: claims and renewals are answered up to the time of a call,
// whatever it takes to dial and greet.
func TestRoundTripAtItsBound(t *testing.T) {
	timing := lease.Timing{Lease: testLease, RenewEvery: testLease / 4}
	bound := timing.CallTimeout()
	for name, c := range map[string]struct {
		trip  time.Duration
		leads bool
	}{
		"a third":    {bound / 3, true},
		"just below": {bound - 10*time.Millisecond, true},
		"just above": {bound + 10*time.Millisecond, false},
		"far above":  {2 * bound, false},
	} {
		t.Run(name, func(t *testing.T) {
			atThePolls(t, 3, func(t *testing.T, p *polls) {
				p.counters("1")
				for _, own := range p.own { // or the first request of each script takes one trip more
					for _, s := range []protocol.ElectionScript{protocol.ClaimScript, protocol.RaiseScript, protocol.RenewScript, protocol.ReleaseScript} {
						if err := s.Load(t.Context(), own).Err(); err != nil {
							t.Fatal(err)
						}
					}
				}
				a := p.voter("a")
				for _, l := range a.lines {
					l.dial.Store(int64(c.trip))
					l.trip.Store(int64(c.trip))
				}
				won := uint64(0)
				for range 5 {
					if token, _ := a.Claim(t.Context(), 1, nil); token != 0 {
						won = token
						break
					}
					a.WaitIdle(time.Minute)
				}
				if (won != 0) != c.leads {
					t.Fatalf("token %d with a round trip of %v, the bound is %v", won, c.trip, bound)
				}
				if c.leads && !a.Renew(testLease, won, protocol.Heir{}, fit).Majority(protocol.Renewed) {
					t.Error("not renewed")
				}
			})
		})
	}
}

package quorum

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// A leader's round ends with the majority: whatever else is wrong with the third node, the lease is renewed.
func TestRenewalDoesNotWaitForAMinority(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("1")
		a := p.voter("a")
		token := a.wins(1)
		a.renew(testLease, token, protocol.Heir{}, fit) // the nodes know the script
		time.Sleep(time.Second)
		for _, l := range a.lines {
			l.trip.Store(int64(trip))
		}
		a.lines[2].trip.Store(int64(5 * trip))
		began := time.Now()
		if tally := a.renew(testLease, token, protocol.Heir{}, fit); !tally.Majority(protocol.Renewed) || time.Since(began) != trip {
			t.Errorf("it took %v: %+v", time.Since(began), tally.Answers)
		}
	})
}

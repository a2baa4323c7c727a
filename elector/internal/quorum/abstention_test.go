package quorum

import (
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

func TestNodeThatForgotAbstainsForALease(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			atThePolls(t, n, func(t *testing.T, p *polls) {
				p.counters("1")
				a, b := p.voter("a"), p.voter("b")
				a.wins(1)
				for _, m := range p.redis[:n/2+1] {
					m.FlushAll()
				}
				began := time.Now()
				for time.Since(began) < testLease-time.Second {
					if tally := b.loses(); tally.Count(protocol.Abstains) != n/2+1 {
						t.Fatalf("after %v: %+v", time.Since(began), tally.Answers)
					}
					time.Sleep(time.Second)
				}
				time.Sleep(testLease - time.Since(began) + time.Millisecond)
				b.wins(1)
			})
		})
	}
}

// The abstention is bounded in time, too, whoever wrote the marker and whatever
// the node's clock did since.
func TestAbstentionLapses(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		_ = p.redis[0].Set(p.keys.New, "by hand")
		a := p.voter("a")
		if tally := a.loses(); tally.Count(protocol.Abstains) != 1 {
			t.Errorf("%+v", tally.Answers)
		}
		time.Sleep(testLease + time.Millisecond)
		a.wins(1)
	})
}

// A bootstrap names the markers that it found. A node that forgot after that has
// another one, and abstains.
func TestBootstrapNamesTheMarkersItFound(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		a, b := p.voter("a"), p.voter("b")
		tally := a.loses()
		if tally.Count(protocol.Abstains) != 3 {
			t.Fatalf("%+v", tally.Answers)
		}
		var markers []string
		for _, answer := range tally.Answers {
			markers = append(markers, answer.Note)
		}
		p.redis[0].FlushAll()
		b.loses()
		token, tally := a.Claim(t.Context(), 1, markers, "")
		if token == 0 || tally.Answers[0].Status != protocol.Abstains {
			t.Errorf("token %d, %+v", token, tally.Answers)
		}
		for i := range p.redis {
			if marked := p.get(i, p.keys.New) != ""; marked != (i == 0) {
				t.Errorf("node %d: marked as new: %v", i, marked)
			}
		}
	})
}

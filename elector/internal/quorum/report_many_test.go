package quorum

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// announce has all elections report, as they do when a process hands them over.
func (all *process) announce(event string) {
	for _, v := range all.voters {
		v.Announce(Report{Event: []byte(event)})
	}
}

func (all *process) waitIdle() {
	for _, v := range all.voters {
		v.WaitIdle(time.Minute)
	}
}

// recorded fails the test unless the history of that election has these events.
func (all *process) recorded(node, election int, events ...string) {
	all.t.Helper()
	var got []string
	entries, _ := all.polls.redis[node].Stream(all.voters[election].cfg.Keys.History)
	for _, e := range entries {
		got = append(got, e.Values[1])
	}
	if !slices.Equal(got, events) {
		all.t.Errorf("the history of election %d on node %d has %q, want %q", election, node, got, events)
	}
}

// Hundreds of elections that report at once cost a few calls, of a bounded size; and each has its reports in their order.
func TestReportsTravelTogether(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			atThePolls(t, n, func(t *testing.T, p *polls) {
				const elections = 150
				all := p.process(elections)
				all.took()
				began := time.Now()
				all.announce("one")
				all.announce("two")
				all.waitIdle()
				calls, sum := all.took(), 0
				for _, c := range calls {
					if sum += c; c > maxBatch {
						t.Errorf("a call for %d elections", c)
					}
				}
				if sum != 2*elections || len(calls) > 2*elections/10 {
					t.Errorf("%d reports came in %d calls: %v", sum, len(calls), calls)
				}
				if took := time.Since(began); took > time.Duration(len(calls))*trip {
					t.Errorf("%d calls took %v", len(calls), took)
				}
				for node := range p.redis {
					for i := range elections {
						all.recorded(node, i, "one", "two")
					}
				}
			})
		})
	}
}

// Reports to a node that hangs delay neither what else it is sent, nor reports to the others.
func TestStuckReportsDelayNothingElse(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		all := p.process(9)
		all.watch(0, func(calls []protocol.Call, _ *server.Peer) bool {
			if calls[0].Script == protocol.ScriptAnnounce {
				time.Sleep(time.Minute)
			}
			return false
		})
		all.announce("one")
		began := time.Now()
		all.renewed(all.renew(testLease, nil))
		if took := time.Since(began); took > 4*trip { // they make a connection
			t.Errorf("renewals took %v", took)
		}
		time.Sleep(2 * trip)
		for i := range all.voters {
			all.recorded(1, i, "one")
			all.recorded(2, i, "one")
		}
		all.waitIdle()
		// It is bounded by the time that a request has to be sent, and that of its answer.
		if took, limit := time.Since(began), 2*connectLimits*all.voters[0].cfg.CallTimeout; took > limit {
			t.Errorf("they were given up after %v, want %v at most", took, limit)
		}
	})
}

// Reports that are not sent in time are kept, and the node gets them when it answers again.
func TestReportsThatCanNotBeSentAreKept(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(5)
		all.voters[0].lines[0].cut.Store(true)
		all.announce("one")
		all.announce("two")
		all.waitIdle()
		all.voters[0].lines[0].cut.Store(false)
		time.Sleep(time.Second)
		if tally := all.voters[1].renew(testLease, all.tokens[1], protocol.Heir{}, fit); !tally.Majority(protocol.Renewed) {
			t.Fatal(errors.Join(all.voters[1].troubles()...))
		}
		all.waitIdle()
		all.recorded(0, 1, "one", "two")
		all.recorded(0, 2)
	})
}

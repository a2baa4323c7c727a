package quorum

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// announce has all elections report, as they do when a process hands them over.
func (all *process) announce(event string) {
	for _, v := range all.voters {
		v.Announce(Report{Event: func(late bool) []byte { return fmt.Append(nil, event, " late=", late) }})
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
					if sum += c; c > transport.MaxBatch {
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
						all.recorded(node, i, "one late=false", "two late=false")
					}
				}
			})
		})
	}
}

// A report that meets no other waits for nothing, whatever else is under way.
func TestLoneReportGoesAtOnce(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(2)
		all.busy()
		began := time.Now()
		all.voters[1].Announce(Report{Event: func(late bool) []byte { return []byte("one") }})
		all.voters[1].WaitIdle(time.Minute)
		if took := time.Since(began); took != trip {
			t.Errorf("it took %v, want a round trip", took)
		}
		all.recorded(0, 1, "one")
	})
}

// What is wrong with the history of one election is that one's, and reported as its own.
func TestRefusedReportIsOneElections(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(9)
		var mu sync.Mutex
		refusals := map[int]error{}
		for i, v := range all.voters {
			v.recorders[0].refused = func(err error) {
				mu.Lock()
				defer mu.Unlock()
				refusals[i] = err
			}
		}
		_ = p.redis[0].Set(all.voters[5].cfg.Keys.History, "x")
		all.took()
		all.announce("one")
		all.waitIdle()
		if calls := all.took(); slices.Max(calls) < 5 {
			t.Fatalf("they did not travel together: %v", calls)
		}
		for i := range all.voters {
			if i != 5 {
				all.recorded(0, i, "one late=false")
			}
		}
		if err := refusals[5]; len(refusals) != 1 || !rediserr.WrongType(err) || !rediserr.Answered(err) {
			t.Errorf("refused: %v", refusals)
		}
		p.redis[0].Del(all.voters[5].cfg.Keys.History)
		all.renewed(all.renew(testLease, nil)) // the node answers, and is sent it again
		all.waitIdle()
		all.recorded(0, 5, "one late=true")
	})
}

// A node that refuses calls for several elections gets one for each, and records them all.
func TestReportsToANodeThatWantsEachApart(t *testing.T) {
	for _, refusal := range apart {
		t.Run(refusal[:6], func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
				all := p.process(9)
				denied := all.wantsEachApart(refusal, all.voters[3].cfg.Keys.History)
				all.announce("one")
				all.waitIdle()
				for i := range all.voters {
					if i != 3 || !denied {
						all.recorded(0, i, "one late=false")
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
		if took := time.Since(began); took > 2*trip {
			t.Errorf("renewals took %v", took)
		}
		time.Sleep(2 * trip)
		for i := range all.voters {
			all.recorded(1, i, "one late=false")
			all.recorded(2, i, "one late=false")
		}
		all.waitIdle()
		// It is bounded by the time that a request has to be sent, and that of its answer.
		if took, limit := time.Since(began), (transport.ConnectLimits+2)*all.voters[0].cfg.CallTimeout; took > limit {
			t.Errorf("they were given up after %v, want %v at most", took, limit)
		}
	})
}

// While claims or releases wait, one call with reports is under way at most: those of thousands would take the node's time, and the
// connections. When nothing else waits, a node that is far away gets several.
func TestReportsStandBehindOtherRequests(t *testing.T) {
	for _, behind := range []bool{true, false} {
		t.Run(fmt.Sprint("behind=", behind), func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
				all := p.process(3 * transport.MaxBatch)
				var mu sync.Mutex
				reports, most, releases := 0, 0, 0
				all.watch(0, func(calls []protocol.Call, _ *server.Peer) bool {
					count := func(by int) {
						mu.Lock()
						defer mu.Unlock()
						if calls[0].Script == protocol.ScriptAnnounce {
							reports += by
							most = max(most, reports)
						} else {
							releases += by
						}
					}
					count(1)
					time.Sleep(time.Second / 10)
					count(-1)
					return false
				})
				for i := range transport.MaxParallel + 1 { // the last one waits
					if behind {
						go all.voters[i].Releasing(all.tokens[i], protocol.Heir{}).Try(testLease)
						time.Sleep(trip / 2)
					}
				}
				all.announce("one")
				time.Sleep(time.Second / 20)
				mu.Lock()
				if want := 1; behind && (most != want || releases == 0) || !behind && most <= want {
					t.Errorf("%d calls with reports were under way, and %d with releases", most, releases)
				}
				mu.Unlock()
				all.waitIdle()
				for i := range all.voters {
					entries, _ := p.redis[0].Stream(all.voters[i].cfg.Keys.History)
					if len(entries) != 1 {
						t.Errorf("the history of election %d: %v", i, entries)
					}
				}
			})
		})
	}
}

// A report that had to wait is made when it is sent, and reports that it is late.
func TestReportThatHadToWaitIsLate(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(3)
		all.watch(0, func([]protocol.Call, *server.Peer) bool {
			time.Sleep(lateAfter + trip)
			return false
		})
		all.announce("one")
		all.announce("two")
		all.waitIdle()
		all.recorded(0, 0, "one late=false", "two late=true")
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
		if tally := all.voters[1].Renew(testLease, all.tokens[1], protocol.Heir{}, fit); !tally.Majority(protocol.Renewed) {
			t.Fatal(errors.Join(all.voters[1].troubles()...))
		}
		all.waitIdle()
		all.recorded(0, 1, "one late=true", "two late=true")
		all.recorded(0, 2)
	})
}

package quorum

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// process has a voter for each of n elections; all have won. Answers take their time from then on, so that
// requests meet.
func (p *polls) process(n int) *process {
	p.t.Helper()
	all := &process{t: p.t, polls: p}
	first := p.voter("a")
	for i := range n {
		b := first
		if i > 0 {
			cfg := first.cfg
			b = &booth{t: p.t, lines: first.lines}
			b.Voter = NewVoter(first.nodes, cfg)
		}
		b.cfg.Keys = protocol.KeysOf("mandate", fmt.Sprint("orders-", i))
		for _, m := range p.redis {
			_ = m.Set(b.cfg.Keys.Fence, "1")
		}
		all.voters, all.tokens = append(all.voters, b), append(all.tokens, b.wins(1))
		b.WaitIdle(time.Minute)
	}
	for i := range p.redis {
		for _, s := range []protocol.Script{protocol.ScriptClaim, protocol.ScriptRenew, protocol.ScriptRaise, protocol.ScriptRelease, protocol.ScriptAnnounce} {
			if err := p.own[i].ScriptLoad(p.t.Context(), s.Source()).Err(); err != nil {
				p.t.Fatal(err)
			}
		}
		all.watch(i, nil)
	}
	for _, l := range first.lines {
		l.trip.Store(int64(trip))
	}
	return all
}

// A thousand elections cost a few calls, each of a bounded size, and every one has its own lease.
func TestElectionsTravelTogether(t *testing.T) {
	for n, elections := range map[int]int{1: 1000, 3: 200} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			atThePolls(t, n, func(t *testing.T, p *polls) {
				all := p.process(elections)
				time.Sleep(testLease / 2)
				all.renewed(all.renew(testLease, nil))
				time.Sleep(time.Second)
				calls, sum := all.took(), 0
				for _, c := range calls {
					if sum += c; c > maxBatch {
						t.Errorf("a call for %d elections", c)
					}
				}
				if sum != elections || len(calls) > elections/10 {
					t.Errorf("%d renewals came in %d calls: %v", sum, len(calls), calls)
				}
				for _, v := range all.voters {
					if left := p.redis[0].TTL(v.cfg.Keys.Lock); left < testLease-2*time.Second {
						t.Fatalf("%s: the lock ends in %v", v.cfg.Keys.Lock, left)
					}
				}
			})
		})
	}
}

// Whoever meets no other is not kept waiting: neither by a timer nor by what other kinds of requests are under way.
func TestLoneRequestGoesAtOnce(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(3)
		all.busy()
		began := time.Now()
		if tally := all.voters[1].Releasing(all.tokens[1], protocol.Heir{}, nil).Try(testLease); tally.Count(protocol.Released) != 1 || time.Since(began) > 4*trip { // its connection, too
			t.Errorf("a release beside a renewal took %v: %+v", time.Since(began), tally.Answers)
		}
		time.Sleep(time.Second)
		began = time.Now()
		if all.voters[2].renew(testLease, all.tokens[2], protocol.Heir{}, fit); time.Since(began) != trip {
			t.Errorf("a renewal alone took %v", time.Since(began))
		}
	})
}

// Those that meet a request that went alone travel together beside and behind it, in a few calls.
func TestOthersWaitForALoneRequest(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(50)
		began := time.Now()
		all.release(trip / 2)
		calls, sum := all.took(), 0
		for _, c := range calls {
			sum += c
		}
		if sum != 50 || calls[0] != 1 || len(calls) > 1+maxCalls {
			t.Errorf("%d releases came in calls for %v elections, want one and a few", sum, calls)
		}
		if took := time.Since(began); took > 5*trip { // one of them makes a connection
			t.Errorf("they took %v", took)
		}
	})
}

// release gives all terms back, the first one that much before the others.
func (p *process) release(before time.Duration) {
	p.t.Helper()
	var wg sync.WaitGroup
	for i, v := range p.voters {
		wg.Go(func() {
			if tally := v.Releasing(p.tokens[i], protocol.Heir{}, nil).Try(testLease); tally.Count(protocol.Released) != 1 {
				p.t.Errorf("election %d: %+v", i, tally.Answers)
			}
		})
		if i == 0 {
			time.Sleep(before)
		}
	}
	wg.Wait()
}

// A call on a dead connection costs the elections in it one time-out, and the others next to nothing.
func TestStuckCallDelaysNoOther(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(6)
		stuck := true
		all.watch(0, func([]protocol.Call, *server.Peer) bool {
			all.mu.Lock()
			hangs := stuck
			stuck = false
			all.mu.Unlock()
			if hangs {
				time.Sleep(time.Minute)
			}
			return false
		})
		all.busy()
		began := time.Now()
		all.renewed(all.renew(testLease, nil))
		if took, limit := time.Since(began), all.voters[0].cfg.CallTimeout; took > limit+limit/4+2*trip {
			t.Errorf("it took %v, a time-out is %v", took, limit) // of the first, which waits for its own
		}
		began = time.Now()
		if tally := all.voters[1].renew(testLease, all.tokens[1], protocol.Heir{}, fit); !tally.Majority(protocol.Renewed) || time.Since(began) != trip {
			t.Errorf("after that: %v, %+v", time.Since(began), tally.Answers)
		}
	})
}

// The same for who waits behind it: not a call time-out.
func TestWaitingBehindAStuckCall(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(3)
		limit := all.voters[0].cfg.CallTimeout
		all.watch(0, func(calls []protocol.Call, _ *server.Peer) bool {
			if calls[0].Keys[0] == all.voters[0].cfg.Keys.Lock {
				time.Sleep(time.Minute)
			}
			return false
		})
		all.busy()
		began := time.Now()
		tally := all.voters[1].renew(testLease, all.tokens[1], protocol.Heir{}, fit)
		if took := time.Since(began); !tally.Majority(protocol.Renewed) || took > limit/4+4*trip {
			t.Errorf("after %v: %+v", took, tally.Answers)
		}
	})
}

package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
)

// process is the voters of several elections on one set of nodes, as one process has them.
type process struct {
	t      *testing.T
	polls  *polls
	first  sync.WaitGroup // the renewal of the first election
	away   atomic.Bool    // that is on its way
	voters []*booth
	tokens []uint64

	mu    sync.Mutex
	calls []int // for how many elections each renewal, release or claim was
}

const trip = 10 * time.Millisecond

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
		b.cfg.Keys = KeysOf("mandate", fmt.Sprint("orders-", i))
		for _, m := range p.redis {
			_ = m.Set(b.cfg.Keys.Fence, "1")
		}
		all.voters, all.tokens = append(all.voters, b), append(all.tokens, b.wins(1))
		b.WaitIdle(time.Minute)
	}
	for i := range p.redis {
		for _, s := range scripts {
			if err := p.own[i].ScriptLoad(p.t.Context(), s.source).Err(); err != nil {
				p.t.Fatal(err)
			}
		}
		all.watch(i, nil)
	}
	synctest.Wait() // there is a spare connection
	for _, l := range first.lines {
		l.trip.Store(int64(trip))
	}
	return all
}

// watch counts the calls to a node, and has f look at each before it runs; true: f has answered it.
func (all *process) watch(node int, f func([]Call, *server.Peer) bool) {
	all.polls.redis[node].Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		calls := ParseCalls(cmd, args...)
		if len(calls) == 0 {
			return false
		}
		if node == 0 {
			all.mu.Lock()
			all.calls = append(all.calls, len(calls))
			all.mu.Unlock()
		}
		return f != nil && f(calls, c)
	})
}

// took are the calls to the first node since the last take.
func (all *process) took() []int {
	all.mu.Lock()
	defer all.mu.Unlock()
	calls := all.calls
	all.calls = nil
	return calls
}

// renew has all elections renew at once, but one that is on its way.
func (all *process) renew(left time.Duration, fit func(i int) bool) []Tally {
	tallies := make([]Tally, len(all.voters))
	away := all.away.Load()
	if !away {
		all.first.Wait()
	}
	var wg sync.WaitGroup
	for i, v := range all.voters {
		if i == 0 && away {
			continue
		}
		wg.Go(func() { tallies[i] = v.Renew(left, all.tokens[i], Heir{}, func() bool { return fit == nil || fit(i) }) })
	}
	wg.Wait()
	return tallies
}

// renewed fails the test unless all but those elections were renewed.
func (all *process) renewed(tallies []Tally, but ...int) {
	all.t.Helper()
	for i, tally := range tallies {
		if tally.nodes == nil {
			continue
		}
		want := true
		for _, j := range but {
			want = want && i != j
		}
		if got := tally.Majority(Mine); got != want {
			all.t.Errorf("election %d: renewed: %v: %+v", i, got, tally.Answers)
		}
	}
}

// busy has an election of its own on the way to the first node, so that the others wait and travel together behind it.
func (all *process) busy() {
	all.first.Wait()
	all.away.Store(true)
	all.first.Go(func() {
		all.voters[0].Renew(testLease, all.tokens[0], Heir{}, fit)
		all.away.Store(false)
	})
	time.Sleep(trip / 2)
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
		if tally := all.voters[1].Releasing(all.tokens[1], Heir{}).Try(testLease); tally.Count(Released) != 1 || time.Since(began) != trip {
			t.Errorf("a release beside a renewal took %v: %+v", time.Since(began), tally.Answers)
		}
		time.Sleep(time.Second)
		began = time.Now()
		if all.voters[2].Renew(testLease, all.tokens[2], Heir{}, fit); time.Since(began) != trip {
			t.Errorf("a renewal alone took %v", time.Since(began))
		}
	})
}

// Those that meet a request that went alone wait for it, and travel together behind it.
func TestOthersWaitForALoneRequest(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(5)
		var wg sync.WaitGroup
		for i, v := range all.voters {
			wg.Go(func() {
				if tally := v.Releasing(all.tokens[i], Heir{}).Try(testLease); tally.Count(Released) != 1 {
					t.Errorf("election %d: %+v", i, tally.Answers)
				}
			})
			if i == 0 {
				time.Sleep(trip / 2)
			}
		}
		wg.Wait()
		if calls := all.took(); !slices.Equal(calls, []int{1, 4}) {
			t.Errorf("calls for %v elections, want one and four", calls)
		}
	})
}

// One that waits for its connection is not sent when its election has ended in that time.
func TestLoneRequestWaitsForItsConnection(t *testing.T) {
	for _, ends := range []bool{false, true} {
		t.Run(fmt.Sprint("ends=", ends), func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
				const dialling = 500 * time.Millisecond
				all := p.process(1)
				line, v := all.voters[0].lines[0], all.voters[0].Voter
				line.cut.Store(true)
				line.dial.Store(int64(dialling))
				if tally := v.Renew(testLease, all.tokens[0], Heir{}, fit); tally.Answered() {
					t.Fatalf("%+v", tally.Answers)
				}
				line.cut.Store(false)
				all.took()
				var began time.Time
				fits := func() bool { return !ends || time.Since(began) < dialling*4/5 }
				for _, send := range []func() Status{
					func() Status { return v.Renew(testLease, all.tokens[0], Heir{}, fits).Answers[0].Status },
					func() Status { // a release, which gathers no others
						r := newRequest(t.Context(), v.cfg.Keys.forRelease(), func() []any {
							if !fits() {
								return nil
							}
							return releaseArgs(v.cfg.Incarnation, v.seq, testLease, all.tokens[0], v.cfg.Keys, v.lock.String(), Heir{}, 0)
						})
						return v.nodes.list[0].sender.send(releaseScript, v.cfg.CallTimeout, r).answer.Status
					},
				} {
					began = time.Now()
					status := send()
					time.Sleep(time.Second)
					if calls := all.took(); (status != Unknown) == ends || len(calls) > 0 == ends {
						t.Errorf("calls for %v elections: %v", calls, status)
					}
					line.cut.Store(true) // the connection is lost
					_ = v.Renew(testLease, all.tokens[0], Heir{}, fit)
					line.cut.Store(false)
					all.took()
				}
			})
		})
	}
}

// What is wrong with one election is no other's business, in whatever order they stand in the call; and
// it is reported as if the election had been alone.
func TestRefusalIsOneElections(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(9)
		other, number := all.voters[2].cfg.Keys.Heir, all.voters[5].cfg.Keys.Fence
		_, _ = p.redis[0].Push(other, "x")
		_ = p.redis[0].Set(number, "many")
		_ = p.redis[0].Set(all.voters[7].cfg.Keys.Lock, "b/incb/1 n=1 lease=10000 token=9")
		p.redis[0].Del(all.voters[8].cfg.Keys.Lock) // it is planted again
		all.busy()
		tallies := all.renew(testLease, nil)
		if calls := all.took(); len(calls) != 2 || calls[1] != 8 {
			t.Fatalf("they did not travel together: %v", calls)
		}
		all.renewed(tallies, 2, 5, 7, 8)
		for i, want := range map[int]string{
			2: "MANDATE key " + other + " holds another type than a string",
			5: "MANDATE key " + number + " holds no number",
		} {
			err := tallies[i].Answers[0].Err
			if err == nil || err.Error() != want || !Answered(err) || !Permanent(err) {
				t.Errorf("election %d: %v", i, err)
			}
		}
		if a := tallies[7].Answers[0]; a.Status != Taken || !strings.HasPrefix(a.Holder, "b/") {
			t.Errorf("election 7, whose lock is taken: %+v", a)
		}
		if a := tallies[8].Answers[0]; a.Status != Planted {
			t.Errorf("election 8, whose lock was lost: %+v", a)
		}
	})
}

// Health is asked for each election when the batch is sent: not when the election joins it.
func TestUnhealthyIsNotInTheBatch(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(5)
		all.busy()
		began := time.Now()
		tallies := all.renew(testLease, func(i int) bool { return i != 3 || time.Since(began) < trip/4 })
		time.Sleep(time.Second)
		all.renewed(tallies, 3)
		if calls := all.took(); len(calls) < 2 || calls[1] != 3 {
			t.Errorf("calls for %v elections, want one for the three that are healthy and wait", calls)
		}
		if left := p.redis[0].TTL(all.voters[3].cfg.Keys.Lock); left > testLease-time.Second {
			t.Errorf("the lease of the unhealthy one was prolonged: %v left", left)
		}
		if errs := all.voters[3].troubles(); len(errs) > 0 {
			t.Errorf("a node that was not asked is said not to answer: %v", errs)
		}
	})
}

// An election whose deadline passes while it waits to travel is not sent any more.
func TestDeadlinePassesBeforeTheBatch(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(3)
		all.busy()
		began := time.Now()
		tally := all.voters[1].Renew(trip/4, all.tokens[1], Heir{}, fit)
		if took := time.Since(began); took != trip/4 || tally.Answered() {
			t.Errorf("after %v: %+v", took, tally.Answers)
		}
		time.Sleep(time.Second)
		if calls := all.took(); len(calls) != 1 {
			t.Errorf("calls for %v elections, want the first one alone", calls)
		}
	})
}

// A release follows its election's renewal, also when that travels with others and is late: the other way round the
// renewal would find the lock free.
func TestReleaseDoesNotOvertakeItsBatch(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		const slow = time.Second
		all := p.process(4)
		var mu sync.Mutex
		var done []Script
		all.watch(0, func(calls []Call, _ *server.Peer) bool {
			for _, c := range calls {
				if c.Keys[0] == all.voters[1].cfg.Keys.Lock {
					if c.Script == ScriptRenew {
						time.Sleep(slow)
					}
					mu.Lock()
					done = append(done, c.Script)
					mu.Unlock()
				}
			}
			return false
		})
		all.busy()
		var wg sync.WaitGroup
		for _, i := range []int{1, 2, 3} {
			left := testLease
			if i == 1 {
				left = slow / 2 // its term ends while the batch is on its way
			}
			wg.Go(func() {
				all.voters[i].Renew(left, all.tokens[i], Heir{}, fit)
				if i == 1 {
					all.voters[i].Releasing(all.tokens[i], Heir{}).Try(testLease)
				}
			})
		}
		wg.Wait()
		if len(done) != 2 || done[0] != ScriptRenew || p.get(0, all.voters[1].cfg.Keys.Lock) != "" {
			t.Errorf("done: %v, the lock is %q", done, p.get(0, all.voters[1].cfg.Keys.Lock))
		}
	})
}

// A call on a dead connection costs the elections in it one time-out, and the others next to nothing.
func TestStuckCallHoldsNobodyUp(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(6)
		stuck := true
		all.watch(0, func([]Call, *server.Peer) bool {
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
		if took, limit := time.Since(began), all.voters[0].cfg.CallTimeout; took > limit+limit/overdue+2*trip {
			t.Errorf("it took %v, a time-out is %v", took, limit) // of the first, which waits for its own
		}
		began = time.Now()
		if tally := all.voters[1].Renew(testLease, all.tokens[1], Heir{}, fit); !tally.Majority(Mine) || time.Since(began) != trip {
			t.Errorf("after that: %v, %+v", time.Since(began), tally.Answers)
		}
	})
}

// The same for who waits behind it: not a call time-out.
func TestWaitingBehindAStuckCall(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(3)
		limit := all.voters[0].cfg.CallTimeout
		all.watch(0, func(calls []Call, _ *server.Peer) bool {
			if calls[0].Keys[0] == all.voters[0].cfg.Keys.Lock {
				time.Sleep(time.Minute)
			}
			return false
		})
		all.busy()
		began := time.Now()
		tally := all.voters[1].Renew(testLease, all.tokens[1], Heir{}, fit)
		if took := time.Since(began); !tally.Majority(Mine) || took > limit/overdue+2*trip {
			t.Errorf("after %v: %+v", took, tally.Answers)
		}
	})
}

// A batch whose answer is lost was executed, and no election counts it.
func TestBatchIsCut(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(4)
		all.busy()
		all.voters[0].lines[0].answersLost.Store(true)
		tallies := all.renew(testLease, nil)
		for i, tally := range tallies[1:] {
			if tally.Answered() || tally.Answers[0].Err == nil || errors.As(tally.Answers[0].Err, new(redis.Error)) {
				t.Errorf("election %d: %+v", i+1, tally.Answers)
			}
		}
		all.voters[0].lines[0].answersLost.Store(false)
		all.renewed(all.renew(testLease, nil))
	})
}

// A batch that is executed when its elections have given up brings none of their locks back.
func TestBatchArrivesLate(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(4)
		late := 2 * all.voters[0].cfg.CallTimeout
		all.watch(0, func(calls []Call, _ *server.Peer) bool {
			if calls[0].Script == ScriptRenew && len(calls) > 1 {
				time.Sleep(late)
			}
			return false
		})
		all.busy()
		for i, tally := range all.renew(testLease, nil)[1:] {
			if tally.Answered() {
				t.Errorf("election %d: %+v", i+1, tally.Answers)
			}
		}
		for i, v := range all.voters {
			v.Releasing(all.tokens[i], Heir{}).Try(testLease)
		}
		time.Sleep(late)
		for _, v := range all.voters {
			if lock := p.get(0, v.cfg.Keys.Lock); lock != "" {
				t.Errorf("a late renewal brought a lock back: %q", lock)
			}
		}
	})
}

// A node that takes no call for several elections is sent one for each, in one round trip: one that spreads the keys over slots, and
// one whose user has no right to some of the elections. What it has refused to one is that one's.
func TestNodeThatWantsEachElectionApart(t *testing.T) {
	for _, refusal := range []string{
		"CROSSSLOT Keys in request don't hash to the same slot",
		"NOPERM No permissions to access a key",
	} {
		t.Run(refusal[:6], func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
				all := p.process(5)
				denied := strings.HasPrefix(refusal, "NOPERM")
				all.watch(0, func(calls []Call, c *server.Peer) bool {
					refuse := !denied && len(calls) > 1
					for _, call := range calls {
						refuse = refuse || denied && call.Keys[0] == all.voters[3].cfg.Keys.Lock
					}
					if refuse {
						c.WriteError(refusal)
					}
					return refuse
				})
				for again := range 3 {
					if again == 2 { // it was restarted
						p.own[0].ScriptFlush(t.Context())
					}
					all.busy()
					tallies := all.renew(testLease, nil)
					if denied {
						all.renewed(tallies, 3)
						if err := tallies[3].Answers[0].Err; !Denied(err) {
							t.Errorf("the one that is denied: %v", err)
						}
					} else {
						all.renewed(tallies)
					}
					time.Sleep(time.Second)
					calls := all.took()
					if together := slices.Max(calls); again > 0 && !denied && together > 1 {
						t.Errorf("calls for %v elections to a node that has refused that", calls)
					}
				}
			})
		})
	}
}

// A batch waits for its connection as long as a request alone. An election that ends in that time is not in it.
func TestBatchWaitsForItsConnection(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		const dialling = 500 * time.Millisecond
		all := p.process(5)
		line := all.voters[0].lines[0]
		line.cut.Store(true)
		line.dial.Store(int64(dialling))
		if tally := all.voters[0].Renew(testLease, all.tokens[0], Heir{}, fit); tally.Answered() {
			t.Fatalf("%+v", tally.Answers)
		}
		line.cut.Store(false)
		all.took()
		began := time.Now()
		tallies := all.renew(testLease, func(i int) bool { return i != 2 || time.Since(began) < dialling*4/5 })
		all.renewed(tallies, 2)
		time.Sleep(time.Second)
		calls, sum := all.took(), 0
		for _, c := range calls {
			sum += c
		}
		if sum != 4 || len(calls) > 2 {
			t.Errorf("calls for %v elections, want one for the four that wait and have not ended", calls)
		}
	})
}

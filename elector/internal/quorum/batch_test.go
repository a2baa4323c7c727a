package quorum

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

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
			if err == nil || err.Error() != want || !rediserr.Answered(err) || !rediserr.Permanent(err) {
				t.Errorf("election %d: %v", i, err)
			}
		}
		if a := tallies[7].Answers[0]; a.Status != protocol.Taken || !strings.HasPrefix(a.Holder, "b/") {
			t.Errorf("election 7, whose lock is taken: %+v", a)
		}
		if a := tallies[8].Answers[0]; a.Status != protocol.Planted {
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
		tally := all.voters[1].renew(trip/4, all.tokens[1], protocol.Heir{}, fit)
		if took := time.Since(began); took > trip || tally.Answered() {
			t.Errorf("after %v: %+v", took, tally.Answers)
		}
		time.Sleep(time.Second)
		if calls := all.took(); len(calls) != 1 {
			t.Errorf("calls for %v elections, want the first one alone", calls)
		}
	})
}

// An election that has less time left than the call takes gets no answer, and costs the others none.
func TestDeadlineOfOneCutsTheCallOfNoOther(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all, far := p.process(3), 100*time.Millisecond
		all.voters[0].lines[0].trip.Store(int64(far))
		all.busy()
		var wg sync.WaitGroup
		for i, left := range map[int]time.Duration{1: far * 3 / 2, 2: testLease / 2} {
			wg.Go(func() {
				tally := all.voters[i].renew(left, all.tokens[i], protocol.Heir{}, fit)
				if got := tally.Majority(protocol.Renewed); got != (i == 2) {
					t.Errorf("election %d with %v left: renewed: %v: %+v", i, left, got, tally.Answers)
				}
			})
		}
		wg.Wait()
		if calls := all.took(); !slices.Equal(calls, []int{1, 2}) {
			t.Errorf("they did not travel together: %v", calls)
		}
	})
}

// A release that overtakes its election's renewal, which travels with others and is late, leaves nothing
// behind: the renewal finds the term closed.
func TestReleaseMayOvertakeItsRenewal(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(4)
		late := all.voters[1]
		all.watch(0, func(calls []protocol.Call, _ *server.Peer) bool {
			if calls[0].Script == protocol.ScriptRenew && len(calls) > 1 {
				time.Sleep(time.Second)
			}
			return false
		})
		all.busy()
		for _, i := range []int{1, 2, 3} {
			all.voters[i].Renew(time.Now().Add(time.Hour), all.tokens[i], protocol.Heir{}, fit)
		}
		time.Sleep(2 * trip)
		if tally := late.Releasing(all.tokens[1], protocol.Heir{}, nil).Try(testLease); tally.Count(protocol.Released) != 1 {
			t.Fatalf("%+v", tally.Answers)
		}
		if a := <-late.Answers(); a.answer.Status != protocol.NoLock || p.get(0, late.cfg.Keys.Lock) != "" {
			t.Errorf("the renewal: %+v; the lock is %q", a.answer, p.get(0, late.cfg.Keys.Lock))
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
		all.watch(0, func(calls []protocol.Call, _ *server.Peer) bool {
			if calls[0].Script == protocol.ScriptRenew && len(calls) > 1 {
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
		all.first.Wait()
		for i, v := range all.voters {
			v.Releasing(all.tokens[i], protocol.Heir{}, nil).Try(testLease)
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
	for _, refusal := range apart {
		t.Run(refusal[:6], func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
				all := p.process(5)
				denied := all.wantsEachApart(refusal, all.voters[3].cfg.Keys.Lock)
				for again := range 3 {
					if again == 2 { // it was restarted
						p.own[0].ScriptFlush(t.Context())
					}
					all.busy()
					tallies := all.renew(testLease, nil)
					if denied {
						all.renewed(tallies, 3)
						if err := tallies[3].Answers[0].Err; !rediserr.Denied(err) {
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

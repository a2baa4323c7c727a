package quorum

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// A leader's round ends with the majority: whatever else is wrong with the third node, the lease is renewed.
func TestRenewalDoesNotWaitForAMinority(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("1")
		a := p.voter("a")
		token := a.wins(1)
		a.Renew(testLease, token, protocol.Heir{}, fit) // the nodes know the script
		time.Sleep(time.Second)
		for _, l := range a.lines {
			l.trip.Store(int64(trip))
		}
		a.lines[2].trip.Store(int64(5 * trip))
		began := time.Now()
		if tally := a.Renew(testLease, token, protocol.Heir{}, fit); !tally.Majority(protocol.Renewed) || time.Since(began) != trip {
			t.Errorf("it took %v: %+v", time.Since(began), tally.Answers)
		}
	})
}

// What an election does with its answer is not a matter of those that travelled with it: its log may be written to a
// pipe that nobody reads.
func TestBlockedLogHoldsUpNoOther(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(4)
		v := all.voters[1]
		_ = p.redis[0].Set(v.cfg.Keys.Lock, "another/abcdefgh/1 n=1 lease=10000 token=9")
		read := make(chan struct{})
		v.cfg.RequestEnded = func(int, time.Duration, error) { <-read }
		all.busy()
		var wg sync.WaitGroup
		began := time.Now()
		for _, i := range []int{1, 2, 3} {
			wg.Go(func() {
				all.voters[i].Renew(testLease, all.tokens[i], protocol.Heir{}, fit)
				if took := time.Since(began); i != 1 && took > 2*trip {
					t.Errorf("election %d: its renewal took %v", i, took)
				}
			})
		}
		time.Sleep(time.Second)
		close(read)
		wg.Wait()
	})
}

// The release of a term comes to a slow node behind the renewal that no goroutine waits for.
func TestReleaseFollowsARenewalThatIsUnderWay(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		const slow = time.Second
		all := p.process(1)
		var mu sync.Mutex
		var done []protocol.Script
		all.watch(2, func(calls []protocol.Call, _ *server.Peer) bool {
			if calls[0].Script == protocol.ScriptRenew {
				time.Sleep(slow)
			}
			mu.Lock()
			defer mu.Unlock()
			done = append(done, calls[0].Script)
			return false
		})
		all.renewed([]Tally{all.voters[0].Renew(testLease, all.tokens[0], protocol.Heir{}, fit)})
		all.voters[0].Releasing(all.tokens[0], protocol.Heir{}).Try(testLease)
		time.Sleep(2 * slow)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(done, []protocol.Script{protocol.ScriptRenew, protocol.ScriptRelease}) || p.locks() != 0 {
			t.Errorf("the third node did %v, %d nodes hold a lock", done, p.locks())
		}
	})
}

// Requests with little time, one after the other, put off neither the ends of others nor the way past a stuck call.
func TestShortRequestsPutOffNoOther(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(12)
		late := all.voters[0].cfg.CallTimeout / transport.OverdueDivisor
		all.watch(0, func(calls []protocol.Call, _ *server.Peer) bool {
			if calls[0].Keys[0] == all.voters[0].cfg.Keys.Lock {
				time.Sleep(time.Minute)
			}
			return false
		})
		all.busy()
		left := late * 3 / 4
		var wg sync.WaitGroup
		for i := 1; i < len(all.voters); i++ {
			wg.Go(func() {
				began, mine := time.Now(), left
				if i == 1 {
					mine = testLease
				}
				tally := all.voters[i].Renew(mine, all.tokens[i], protocol.Heir{}, fit)
				switch took := time.Since(began); {
				case i == 1 && (!tally.Majority(protocol.Renewed) || took > late+2*trip):
					t.Errorf("behind the stuck call: %v, %+v", took, tally.Answers)
				case took > left+2*trip && i != 1:
					t.Errorf("election %d had %v, and an outcome after %v", i, left, took)
				}
			})
			time.Sleep(late / 2)
		}
		wg.Wait()
	})
}

// What a renewal is made of is used again by the renewals of other elections, but never while an answer to it is under way.
func TestRoundsAreUsedAgainOnceAllHaveAnswered(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		all := p.process(4)
		_ = p.redis[2].Set(all.voters[1].cfg.Keys.Lock, "another/abcdefgh/1 n=3 lease=10000 token=9")
		for _, v := range all.voters {
			v.lines[2].trip.Store(int64(5 * trip)) // its answers come when other rounds are under way
		}
		for range 10 {
			for i, v := range all.voters {
				all.renewed([]Tally{v.Renew(testLease, all.tokens[i], protocol.Heir{}, fit)})
			}
		}
		time.Sleep(time.Second)
		for i, v := range all.voters {
			if n := len(v.Rivals()); (i == 1) != (n == 1) {
				t.Errorf("election %d has %d rivals", i, n)
			}
		}
	})
}

// Requests that are posted together go out together, and nothing holds up what is posted alone.
func TestGatheredRequestsTravelTogether(t *testing.T) {
	for name, post := range map[string]func(all *process, i int, ended func(Tally)){
		"renewals": func(all *process, i int, ended func(Tally)) {
			all.voters[i].StartRenewal(testLease, all.tokens[i], protocol.Heir{}, fit, func(tally Tally) {
				all.renewed([]Tally{tally})
				ended(tally)
			})
		},
		"claims": func(all *process, i int, ended func(Tally)) { all.voters[i].StartClaim(1, ended) },
	} {
		t.Run(name, func(t *testing.T) {
			atThePolls(t, 3, func(t *testing.T, p *polls) {
				all := p.process(5)
				nodes := all.voters[0].nodes
				all.took()
				var wg sync.WaitGroup
				request := func(i int) {
					wg.Add(1)
					post(all, i, func(Tally) { wg.Done() })
				}
				began := time.Now()
				nodes.Gather(func() {
					request(1)
					nodes.Gather(func() { request(2) }) // as another goroutine would
					time.Sleep(time.Millisecond)
					request(3)
					request(4)
				})
				wg.Wait()
				if took := time.Since(began); took > 2*trip {
					t.Errorf("they took %v", took)
				}
				request(0)
				wg.Wait()
				if calls := all.took(); !slices.Equal(calls, []int{4, 1}) {
					t.Errorf("the calls were for %v elections", calls)
				}
			})
		})
	}
}

// One that is stuck while it posts requests holds up no other for long.
func TestStuckGathererHoldsUpNoOther(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		all := p.process(3)
		stuck := make(chan struct{})
		go all.voters[0].nodes.Gather(func() { <-stuck })
		time.Sleep(time.Second)
		for _, i := range []int{1, 2} {
			began := time.Now()
			all.renewed([]Tally{all.voters[i].Renew(testLease, all.tokens[i], protocol.Heir{}, fit)})
			if took := time.Since(began); took > all.voters[i].cfg.CallTimeout/transport.OverdueDivisor+2*trip {
				t.Errorf("the renewal of election %d took %v", i, took)
			}
		}
		close(stuck)
	})
}

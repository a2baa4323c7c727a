package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// process has a voter for each of n elections; all have won. Answers take their time from then on, so that
// requests meet.
func (p *cluster) process(n int) *process {
	p.t.Helper()
	all := &process{t: p.t, cluster: p}
	first := p.voter("a")
	for i := range n {
		b := first
		if i > 0 {
			cfg := first.cfg
			b = &testVoter{t: p.t, line: first.line}
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
		for _, s := range []testredis.Script{testredis.ScriptClaim, testredis.ScriptRenew, testredis.ScriptRaise, testredis.ScriptRelease, testredis.ScriptAnnounce} {
			must(p.t, p.own[i].ScriptLoad(p.t.Context(), s.Source()).Err())
		}
		all.watch(i, nil)
	}
	p.Each(testredis.Fault{Late: trip})
	return all
}

// A thousand elections cost a few calls, each of a bounded size, and every one has its own lease.
func TestElectionsTravelTogether(t *testing.T) {
	for n, elections := range map[int]int{1: 1000, 3: 200} {
		sub(t, fmt.Sprintf("n=%d", n), n, func(t *testing.T, p *cluster) {
			all := p.process(elections)
			time.Sleep(testLease / 2)
			all.renewed(all.renew(testLease, nil))
			time.Sleep(time.Second)
			calls, sum := all.took()
			if sum != elections || len(calls) > elections/10 {
				t.Errorf("%d renewals came in %d calls: %v", sum, len(calls), calls)
			}
			for _, v := range all.voters {
				if left := p.redis[0].TTL(v.cfg.Keys.Lock); left < testLease-2*time.Second {
					t.Fatalf("%s: the lock ends in %v", v.cfg.Keys.Lock, left)
				}
			}
		})
	}
}

// Whoever meets no other is not kept waiting: neither by a timer nor by what other kinds of requests are under way.
func TestLoneRequestGoesAtOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
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
	bubble(t, 1, func(t *testing.T, p *cluster) {
		all := p.process(50)
		began := time.Now()
		all.release(trip / 2)
		calls, sum := all.took()
		if sum != 50 || calls[0] != 1 || len(calls) > 1+nodes.MaxCalls {
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
	bubble(t, 1, func(t *testing.T, p *cluster) {
		all := p.process(6)
		stuck := true
		all.watch(0, func([]testredis.Request, *server.Peer) bool {
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
	bubble(t, 1, func(t *testing.T, p *cluster) {
		all := p.process(3)
		limit := all.voters[0].cfg.CallTimeout
		all.watch(0, func(calls []testredis.Request, _ *server.Peer) bool {
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

// What is wrong with one election is no other's business, in whatever order they stand in the call; and
// it is reported as if the election had been alone.
func TestRefusalIsOneElections(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		all := p.process(9)
		other, number := all.voters[2].cfg.Keys.Heir, all.voters[5].cfg.Keys.Fence
		_, _ = p.redis[0].Push(other, "x")
		_ = p.redis[0].Set(number, "many")
		_ = p.redis[0].Set(all.voters[7].cfg.Keys.Lock, "b/incb/1 n=1 lease=10000 token=9")
		p.redis[0].Del(all.voters[8].cfg.Keys.Lock) // it is planted again
		all.busy()
		tallies := all.renew(testLease, nil)
		if calls, _ := all.took(); len(calls) != 2 || calls[1] != 8 {
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
	bubble(t, 1, func(t *testing.T, p *cluster) {
		all := p.process(5)
		all.busy()
		began := time.Now()
		tallies := all.renew(testLease, func(i int) bool { return i != 3 || time.Since(began) < trip/4 })
		time.Sleep(time.Second)
		all.renewed(tallies, 3)
		if calls, _ := all.took(); len(calls) < 2 || calls[1] != 3 {
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
	bubble(t, 1, func(t *testing.T, p *cluster) {
		all := p.process(3)
		all.busy()
		began := time.Now()
		tally := all.voters[1].renew(trip/4, all.tokens[1], protocol.Heir{}, fit)
		if took := time.Since(began); took > trip || tally.Answered() {
			t.Errorf("after %v: %+v", took, tally.Answers)
		}
		time.Sleep(time.Second)
		if calls, _ := all.took(); len(calls) != 1 {
			t.Errorf("calls for %v elections, want the first one alone", calls)
		}
	})
}

// An election that has less time left than the call takes gets no answer, and costs the others none.
func TestDeadlineOfOneCutsTheCallOfNoOther(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		all, far := p.process(3), 100*time.Millisecond
		all.voters[0].line(0, testredis.Fault{Late: far})
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
		if calls, _ := all.took(); !slices.Equal(calls, []int{1, 2}) {
			t.Errorf("they did not travel together: %v", calls)
		}
	})
}

// A release that overtakes its election's renewal, which travels with others and is late, leaves nothing
// behind: the renewal finds the term closed.
func TestReleaseMayOvertakeItsRenewal(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		all := p.process(4)
		late := all.voters[1]
		all.watch(0, func(calls []testredis.Request, _ *server.Peer) bool {
			if calls[0].Script == testredis.ScriptRenew && len(calls) > 1 {
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
		if a := <-late.Answers(); a.Answer.Status != protocol.NoLock || p.get(0, late.cfg.Keys.Lock) != "" {
			t.Errorf("the renewal: %+v; the lock is %q", a.Answer, p.get(0, late.cfg.Keys.Lock))
		}
	})
}

// A batch whose answer is lost was executed, and no election counts it.
func TestBatchIsCut(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		all := p.process(4)
		all.busy()
		all.voters[0].line(0, testredis.Fault{Down: testredis.Drop})
		tallies := all.renew(testLease, nil)
		for i, tally := range tallies[1:] {
			if tally.Answered() || tally.Answers[0].Err == nil || errors.As(tally.Answers[0].Err, new(redis.Error)) {
				t.Errorf("election %d: %+v", i+1, tally.Answers)
			}
		}
		all.voters[0].line(0, testredis.Fault{})
		all.renewed(all.renew(testLease, nil))
	})
}

// A batch that is executed when its elections have given up brings none of their locks back.
func TestBatchArrivesLate(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		all := p.process(4)
		late := 2 * all.voters[0].cfg.CallTimeout
		all.watch(0, func(calls []testredis.Request, _ *server.Peer) bool {
			if calls[0].Script == testredis.ScriptRenew && len(calls) > 1 {
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
	for refusal, denied := range map[string]bool{
		"CROSSSLOT Keys in request don't hash to the same slot": false, "NOPERM No permissions to access a key": true,
	} {
		sub(t, refusal[:6], 1, func(t *testing.T, p *cluster) {
			all := p.process(5)
			all.watch(0, func(calls []testredis.Request, c *server.Peer) bool {
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
					if err := tallies[3].Answers[0].Err; !rediserr.Denied(err) {
						t.Errorf("the one that is denied: %v", err)
					}
				} else {
					all.renewed(tallies)
				}
				time.Sleep(time.Second)
				calls, _ := all.took()
				if together := slices.Max(calls); again > 0 && !denied && together > 1 {
					t.Errorf("calls for %v elections to a node that has refused that", calls)
				}
			}
		})
	}
}

// callFor is what one call requests for n elections.
func callFor(n int, what protocol.Request) (all []*protocol.Request) {
	for i := range n {
		k, r := protocol.KeysOf("mandate", fmt.Sprint("orders-", i)), what
		r.Keys, r.Incarnation, r.Seq, r.Lease, r.Identity = &k, "inca", 1, testLease.Milliseconds(), "IDENTI"
		r.Value = protocol.LockValue{Candidate: "a", Incarnation: "inca", Seq: 1, Nodes: 3, Lease: testLease, Token: what.Token}.String()
		all = append(all, &r)
	}
	return all
}

// What a Redis refuses in the middle of a call for several elections is the outcome of those that it
// was refused to: a script that has written goes on, and one that may not write tries for each.
func TestRealRefusalsAreEachElections(t *testing.T) {
	s := servertest.Redis(t)
	c := s.Client(t)
	ctx := t.Context()
	const n = 3
	claims, renewals := callFor(n, protocol.Request{Hint: 1}), callFor(n, protocol.Request{Token: 2, Shown: 2})
	call := func(c *redis.Client, s protocol.ElectionScript, requests []*protocol.Request) []protocol.Answer {
		v, err := c.Do(ctx, s.Command("eval", s.Source, requests...)...).Result()
		var all []protocol.Answer
		for i := range requests {
			all = append(all, protocol.ParseReply(v, err, i, len(requests)))
		}
		return all
	}
	set := func(setting, value string) {
		t.Helper()
		must(t, c.ConfigSet(ctx, setting, value).Err())
	}
	all := func(what string, answers []protocol.Answer, want protocol.Status, prefix string) {
		t.Helper()
		for i, a := range answers {
			if a.Status != want || prefix != "" && (a.Err == nil || !strings.HasPrefix(a.Err.Error(), prefix) || !rediserr.Answered(a.Err)) {
				t.Errorf("%s: election %d: %+v", what, i, a)
			}
		}
	}
	for i := range n {
		c.Set(ctx, protocol.KeysOf("mandate", fmt.Sprint("orders-", i)).Fence, "1", 0)
	}
	set("maxmemory", "1")
	all("a claim on a full memory", call(c, protocol.ClaimScript, claims), protocol.Unknown, "OOM ")
	set("maxmemory", "0")
	all("a claim", call(c, protocol.ClaimScript, claims), protocol.Won, "")
	set("maxmemory", "1")
	all("a renewal on a full memory", call(c, protocol.RenewScript, renewals), protocol.Renewed, "")
	set("maxmemory", "0")

	// One of them may go where the others may not.
	first := protocol.KeysOf("mandate", "orders-0")
	c.Set(ctx, first.Heir, protocol.Reservation("incb"), time.Minute) // which its renewal deletes
	err := c.Do(ctx, "ACL", "SETUSER", "mandate", "on", ">secret", "~*", "&*", "+@all", "-del").Err()
	must(t, err)
	limited := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "mandate", Password: "secret"})
	defer limited.Close()
	answers := call(limited, protocol.RenewScript, renewals)
	if !rediserr.Denied(answers[0].Err) {
		t.Errorf("the election whose renewal needs DEL: %+v", answers[0])
	}
	all("the others", answers[1:], protocol.Renewed, "")

	must(t, c.Do(ctx, "ACL", "SETUSER", "mandate", "+del", "-get").Err())
	for i, a := range call(limited, protocol.RenewScript, renewals) {
		if !rediserr.Denied(a.Err) {
			t.Errorf("election %d, whose renewal needs GET: %+v", i, a)
		}
	}

	set("min-replicas-to-write", "1")
	all("a renewal without replicas", call(c, protocol.RenewScript, renewals), protocol.Unknown, "NOREPLICAS ")
	set("min-replicas-to-write", "0")
	must(t, c.ReplicaOf(ctx, "127.0.0.1", "1").Err())
	err = c.Do(ctx, protocol.RenewScript.Command("eval", protocol.RenewScript.Source, renewals...)...).Err()
	if !redis.IsReadOnlyError(err) {
		t.Errorf("a replica answered the call with %v: its connection stays", err)
	}
}

package quorum

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// A node keeps its identity, whoever asks it; every node has another one. It comes
// with the answers, and the lock names it from the next request on.
func TestNodesHaveIdentities(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		token := a.wins(1)
		time.Sleep(time.Second) // the last node may answer later
		ids := a.Identities()
		if known := ids.Known(); len(known) != 3 || known[0] == known[1] || known[1] == known[2] || known[2] == known[0] {
			t.Fatalf("identities %q", ids)
		}
		a.renew(testLease, token, protocol.Heir{}, fit)
		time.Sleep(time.Second)
		for i := range p.redis {
			if lock := p.get(i, p.keys.Lock); !strings.Contains(lock, " ids="+string(ids)+" ") {
				t.Errorf("node %d: its lock says %q, the identities are %q", i, lock, ids)
			}
		}
		b.loses()
		if b.Identities() != ids {
			t.Errorf("b was told %q, a %q", b.Identities(), ids)
		}
	})
}

// A node that lost its data is another one: its old self may still run elsewhere.
func TestNodeThatForgotHasAnotherIdentity(t *testing.T) {
	for _, by := range []string{"claim", "renewal"} {
		sub(t, "by "+by, 3, func(t *testing.T, p *cluster) {
			p.counters("1")
			a, b := p.voter("a"), p.voter("b")
			token := a.wins(1)
			time.Sleep(time.Second)
			before := a.Identities().Known()
			p.redis[1].FlushAll()
			if by == "claim" {
				b.loses()
			}
			a.renew(testLease, token, protocol.Heir{}, fit)
			time.Sleep(time.Second)
			a.drain()
			after := a.Identities().Known()
			if after[0] != before[0] || after[1] == before[1] || after[2] != before[2] || after[1] != p.get(1, p.keys.ID) {
				t.Errorf("before %q, after %q; the node says %q", before, after, p.get(1, p.keys.ID))
			}
		})
	}
}

// What somebody else wrote there is no identity, and is replaced.
func TestForeignIdentityIsReplaced(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		for _, value := range []string{"", "a b", "a,b", "-", "ä", strings.Repeat("A", 17)} {
			_ = p.redis[0].Set(p.keys.ID, value)
			p.counters("1")
			a := p.voter("a")
			token := a.wins(1)
			if id := p.get(0, p.keys.ID); id == value || len(id) != protocol.IdentityLength || string(a.Identities()) != id {
				t.Errorf("%q became %q, and a knows %q", value, id, a.Identities())
			}
			a.Releasing(token, protocol.Heir{}, nil).Try(testLease)
		}
	})
}

// Who comes without the identities asks for them first; who knows them does not.
func TestMeetingTheNodes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		b.line(0, testredis.Down)
		if b.Meet(t.Context()); b.Identities() != "" {
			t.Errorf("nodes without identities gave %q", b.Identities())
		}
		a.wins(1)
		if b.Meet(t.Context()); b.Identities() != "" {
			t.Error("asked twice in vain within a lease and a half")
		}
		time.Sleep(testLease * 3 / 2)
		if b.Meet(t.Context()); len(b.Identities().Known()) != 2 {
			t.Errorf("met %q", b.Identities())
		}
		if b.wins(1); !strings.Contains(b.lock.String(), " ids=-,") {
			t.Errorf("the claim said %q", b.lock)
		}
		p.redis[1].Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool {
			if cmd == "GET" {
				t.Error("a node that is known was asked")
			}
			return false
		})
		b.Meet(t.Context())
	})
}

// Whoever is slower than the majority is not waited for, and not cut short
// either: it gets its vote later, and counts as answering.
func TestStragglerIsNotCancelled(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("1")
		a := p.voter("a")
		const slow = 300 * time.Millisecond
		a.line(2, dialing(slow))
		began := time.Now()
		token := a.wins(1)
		if took := time.Since(began); took > slow/2 {
			t.Errorf("the claim took %v: a minority was waited for", took)
		}
		time.Sleep(2 * slow)
		if p.locks() != 3 {
			t.Error("a node that was still dialling never got the claim")
		}
		for range 4 {
			a.line(2, testredis.Down) // its connections break ...
			a.renew(testLease, token, protocol.Heir{}, fit)
			time.Sleep(slow)
			a.line(2, testredis.Fault{}) // ... and the new one is slow
			a.drain()
			a.troubles()
			p.redis[2].Del(p.keys.Lock)
			a.renew(testLease, token, protocol.Heir{}, fit)
			time.Sleep(2 * slow)
			a.drain()
			if errs := a.troubles(); p.locks() != 3 || len(errs) > 0 {
				t.Errorf("%d locks, troubles %v: the renewal of a slow node was cut short", p.locks(), errs)
			}
		}
	})
}

// What waited for its turn behind a hung request goes out only if it may still: the verdict of the probe is from before the
// wait, and the deadline may have passed in it, or the term have ended.
func TestQueuedRenewalAsksAgain(t *testing.T) {
	for left, ends := range map[time.Duration]bool{500 * time.Millisecond: false, testLease: true} {
		sub(t, fmt.Sprintf("%v left, the term ends: %v", left, ends), 3, func(t *testing.T, p *cluster) {
			p.counters("1")
			a := p.voter("a")
			token := a.wins(1)
			var renewals atomic.Int32
			p.onScript(2, protocol.RenewScript, func() {
				renewals.Add(1)
				time.Sleep(time.Second)
			})
			a.renew(testLease, token, protocol.Heir{}, fit)
			synctest.Wait() // it has reached the third node, too: a round ends with the answers of a majority
			var ended atomic.Bool
			a.renew(left, token, protocol.Heir{}, func() bool { return !ended.Load() }) // its turn at the third node comes after 1 s
			ended.Store(ends)
			time.Sleep(5 * time.Second)
			if n := renewals.Load(); n != 1 {
				t.Errorf("the third node got %d renewals, one of them too late", n)
			}
			if errs := a.troubles(); ends && len(errs) > 0 {
				t.Errorf("a node that was not asked is said not to answer: %v", errs)
			}
		})
	}
}

// Attempts that are over when their turn at a hung node comes are not made there any
// more: each would hold up the newest, and what follows it, for a call time-out.
func TestAttemptsThatAreOverAreNotMade(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		b.wins(1)
		var claims atomic.Int32
		p.onScript(2, protocol.ClaimScript, func() {
			claims.Add(1)
			time.Sleep(time.Minute)
		})
		for range 20 {
			a.loses()
			time.Sleep(testLease / 100)
		}
		time.Sleep(30 * time.Second)
		if n := claims.Load(); n > 2 {
			t.Errorf("the hung node got %d claims of 20, all but the first long after their attempt", n)
		}
	})
}

// The clean-up after a lost claim follows the claim, also where that is slow: the
// other way round the claim would leave a lock behind, for a lease.
func TestReleaseNeverOvertakesAClaim(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		b.line(2, testredis.Down)
		b.wins(1)
		p.onScript(2, protocol.ClaimScript, func() { time.Sleep(time.Second) })
		a.loses()
		time.Sleep(3 * time.Second)
		if lock := p.get(2, p.keys.Lock); lock != "" {
			t.Errorf("the slow node holds %q", lock)
		}
	})
}

// A renewal whose call has to make a connection first must not reach the node after the deadline.
func TestNothingIsSentOnALateConnection(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		p.counters("1")
		b := p.voter("a")
		token := b.wins(1)
		b.line(0, testredis.Down)
		b.renew(time.Minute, token, protocol.Heir{}, fit)
		b.line(0, testredis.Fault{})
		b.line(0, dialing(1500*time.Millisecond))
		time.Sleep(time.Second)
		before := p.redis[0].TTL(p.keys.Lock)
		b.Renew(time.Now().Add(time.Second), token, protocol.Heir{}, fit)
		time.Sleep(1600 * time.Millisecond)
		if after := p.redis[0].TTL(p.keys.Lock); after > before {
			t.Errorf("renewed 0.5 s after the deadline: the lock lived for %v before, now for %v", before, after)
		}
	})
}

// A node whose identity returns has no vote for a lease, to the moment; another of three makes no lock impossible.
func TestHowLongSeveralServersAreSuspected(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("1")
		a := p.voter("a")
		for _, id := range []string{"A", "B", "A"} {
			a.noteIdentity(1, id, time.Now(), time.Now().Add(1))
			time.Sleep(time.Nanosecond)
		}
		if _, tally := a.Claim(t.Context(), 1, nil, ""); tally.Count(protocol.Won) != 2 || tally.Errors() == nil || a.Several() != nil {
			t.Errorf("%+v, %v", tally.Answers, a.Several())
		}
		time.Sleep(testLease - time.Second)
		now := time.Now()
		a.noteIdentity(2, "A", now, now)
		a.noteIdentity(2, "B", now, now)
		a.noteIdentity(2, "A", now, now)
		if a.Several() == nil {
			t.Error("two of three are suspected")
		}
		time.Sleep(time.Second)
		must(t, a.nodes.All()[1].Suspected(testLease))
		time.Sleep(testLease - time.Second - 1)
		if a.nodes.All()[2].Suspected(testLease) == nil {
			t.Error("forgotten early")
		}
		for _, id := range []string{"C", "D", "C"} { // a backup was restored while this election rested
			time.Sleep(3*testLease + 1)
			a.noteIdentity(0, id, time.Now(), time.Now())
		}
		must(t, a.nodes.All()[0].Suspected(testLease))
	})
}

// A rival is remembered for a lease after the node has shown it last, and the time for which it was shown counts from the
// first answer in a row, or the first that differed.
func TestHowLongRivalsAreRemembered(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		a, began := p.voter("a"), time.Now()
		shows := func(holder string) *Rival {
			r := &a.state[0].rival
			*r = (*r).next(protocol.Answer{Status: protocol.Held, Holder: holder}, time.Now())
			return a.rival(0)
		}
		const same, other = "b/B/1 n=3 lease=10000 token=1", "b/B/1 n=5 lease=10000 token=1"
		for i, holder := range []string{same, other, other} {
			if r := shows(holder); (r.What != "") != (i > 0) {
				t.Errorf("%+v", r)
			}
			time.Sleep(testLease / 2)
		}
		r := shows(other)
		if all, late, apart := r.For(began), r.For(began.Add(testLease)), r.Differed(); all != testLease*3/2 || late != testLease/2 || apart != testLease {
			t.Errorf("for %v, late %v, apart %v", all, late, apart)
		}
		if r := shows("b/B/2 n=5 lease=10000 token=1"); r.For(began) != 0 || r.Differed() != 0 {
			t.Errorf("another attempt: %+v", r)
		}
		time.Sleep(testLease)
		if a.rival(0) == nil {
			t.Error("forgotten early")
		}
		if time.Sleep(time.Nanosecond); a.rival(0) != nil {
			t.Error("remembered after its lock has lapsed")
		}
	})
}

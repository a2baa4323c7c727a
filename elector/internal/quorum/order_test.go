package quorum

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Whoever is slower than the majority is not waited for, and not cut short
// either: it gets its vote later, and counts as answering.
func TestStragglerIsNotCancelled(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("1")
		a := p.voter("a")
		const slow = 300 * time.Millisecond
		a.lines[2].dial.Store(int64(slow))
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
			a.lines[2].cut.Store(true) // its connections break ...
			a.renew(testLease, token, protocol.Heir{}, fit)
			time.Sleep(slow)
			a.lines[2].cut.Store(false) // ... and the new one is slow
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

// leadsPastASlowNode has a candidate lead, and renew once. Each renewal takes the third node a second, and is counted.
func leadsPastASlowNode(p *polls) (a *booth, token uint64, renewals *atomic.Int32) {
	p.counters("1")
	a, renewals = p.voter("a"), new(atomic.Int32)
	token = a.wins(1)
	p.onScript(2, protocol.RenewScript, func() {
		renewals.Add(1)
		time.Sleep(time.Second)
	})
	a.renew(testLease, token, protocol.Heir{}, fit)
	return a, token, renewals
}

// What waits for its turn behind a hung request is not sent after the deadline.
func TestNothingIsSentAfterTheDeadline(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		a, token, renewals := leadsPastASlowNode(p)
		synctest.Wait()                                            // it has reached the third node, too: a round ends with the answers of a majority
		a.renew(500*time.Millisecond, token, protocol.Heir{}, fit) // its turn at the third node would come after 1 s
		time.Sleep(5 * time.Second)
		if n := renewals.Load(); n != 1 {
			t.Errorf("the third node got %d renewals, one of them after the deadline", n)
		}
	})
}

// What waited behind a hung request goes out only if it may still: the verdict of
// the probe is from before the wait, and the term may have ended in it.
func TestQueuedRenewalAsksAgain(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		a, token, renewals := leadsPastASlowNode(p)
		synctest.Wait() // it has reached the third node, too: a round ends with the answers of a majority
		var ended atomic.Bool
		a.renew(testLease, token, protocol.Heir{}, func() bool { return !ended.Load() })
		ended.Store(true)
		time.Sleep(5 * time.Second)
		if n := renewals.Load(); n != 1 {
			t.Errorf("the third node got %d renewals, one of them after the end of the term", n)
		}
		if errs := a.troubles(); len(errs) > 0 {
			t.Errorf("a node that was not asked is said not to answer: %v", errs)
		}
	})
}

// Attempts that are over when their turn at a hung node comes are not made there any
// more: each would hold up the newest, and what follows it, for a call time-out.
func TestAttemptsThatAreOverAreNotMade(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
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
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		b.lines[2].cut.Store(true)
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
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		b := p.voter("a")
		token := b.wins(1)
		b.lines[0].cut.Store(true)
		b.renew(time.Minute, token, protocol.Heir{}, fit)
		b.lines[0].cut.Store(false)
		b.lines[0].dial.Store(int64(1500 * time.Millisecond))
		time.Sleep(time.Second)
		before := p.redis[0].TTL(p.keys.Lock)
		b.Renew(time.Now().Add(time.Second), token, protocol.Heir{}, fit)
		time.Sleep(1600 * time.Millisecond)
		if after := p.redis[0].TTL(p.keys.Lock); after > before {
			t.Errorf("renewed 0.5 s after the deadline: the lock lived for %v before, now for %v", before, after)
		}
	})
}

// Claims that are won and given back while a node hangs must leave no goroutine behind: no term takes
// their late answers.
func TestAbandonedClaimsLeaveNothing(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("1")
		b := p.voter("a")
		b.lines[2].trip.Store(int64(time.Hour))
		for range 100 {
			b.wins(1)
			b.Abandon()
			time.Sleep(testLease)
		}
		time.Sleep(10 * testLease)
		b.background.mu.Lock()
		if n := b.background.n; n > 0 {
			t.Errorf("%d goroutines are left", n)
		}
		b.background.mu.Unlock()
		b.drain()
	})
}

// What one slow node grants to a lost claim is given back when its answer comes, whatever another does.
func TestLateGrantsAreGivenBackApart(t *testing.T) {
	atThePolls(t, 5, func(t *testing.T, p *polls) {
		p.counters("1")
		b := p.voter("b")
		b.wins(1)
		b.Abandon()
		b.WaitIdle(time.Minute) // all lines have their connections
		for node := range 3 {
			_ = p.redis[node].Set(p.keys.Lock, "a/inca/1 n=5 lease=10000")
			p.redis[node].SetTTL(p.keys.Lock, testLease)
		}
		b.lines[3].trip.Store(int64(500 * time.Millisecond))
		b.lines[4].trip.Store(int64(600 * time.Millisecond))
		time.AfterFunc(400*time.Millisecond, func() { b.lines[3].trip.Store(int64(time.Hour)) }) // it hangs from then on
		b.loses()
		time.Sleep(1500 * time.Millisecond)
		if left := p.redis[4].TTL(p.keys.Lock); left > 0 {
			t.Errorf("0.9 s after its answer a node still holds the lock of a lost claim, for %v more", left)
		}
	})
}

package quorum

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// fit is a leader that may renew.
func fit() bool { return true }

// A renewal carries the token to nodes that don't know it: into their counter,
// so that they hand out higher ones only, and into their lock, so that everybody
// is told the same token.
func TestRenewalCopiesTheToken(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("10", "20", "5")
		a := p.voter("a")
		a.lines[2].cut.Store(true)
		token := a.wins(1)
		if token != 21 {
			t.Fatalf("token %d, want one more than the highest counter", token)
		}
		a.lines[2].cut.Store(false)
		_ = p.redis[1].Set(p.keys.Fence, "15") // restarted from an older dump
		for range 2 {
			if tally := a.renew(testLease, token, protocol.Heir{}, fit); !tally.Majority(protocol.Renewed) {
				t.Fatalf("not renewed: %+v", tally.Answers)
			}
			time.Sleep(100 * time.Millisecond)
		}
		for i := range p.redis {
			if fence := p.get(i, p.keys.Fence); fence != "21" {
				t.Errorf("node %d: its counter is %s after a renewal with token %d", i, fence, token)
			}
			if lock := p.get(i, p.keys.Lock); !strings.HasSuffix(lock, " token=21") {
				t.Errorf("node %d: its lock says %q, the term has token %d", i, lock, token)
			}
		}
		// The point of it: whoever wins on the nodes that did not elect a gets a
		// higher token, whatever clock its hint comes from.
		for i := range p.redis {
			p.redis[i].Del(p.keys.Lock)
		}
		b := p.voter("b")
		b.lines[0].cut.Store(true)
		if next := b.wins(1); next <= token {
			t.Errorf("token %d after %d", next, token)
		}
	})
}

func TestPlantIsNoVoteInItsRound(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("1")
		a := p.voter("a")
		token := a.wins(1)
		p.redis[1].FlushAll()
		a.lines[2].cut.Store(true)
		tally := a.renew(testLease, token, protocol.Heir{}, fit)
		if tally.Count(protocol.Renewed) != 1 || tally.Count(protocol.Planted) != 1 || tally.Majority(protocol.Renewed) {
			t.Errorf("a node that forgot was counted: %+v", tally.Answers)
		}
		if p.get(1, p.keys.New) == "" {
			t.Error("a leader that plants on a node without a counter must leave the marker of a new node")
		}
		if fence := p.get(1, p.keys.Fence); fence != fmt.Sprint(token) {
			t.Errorf("the counter is %q after a plant with token %d", fence, token)
		}
		if tally = a.renew(testLease, token, protocol.Heir{}, fit); !tally.Majority(protocol.Renewed) {
			t.Errorf("planted before, and no vote now: %+v", tally.Answers)
		}
	})
}

// A renewal that was long under way must not bring a lock back: neither after
// its own term's release nor after others came and went.
func TestLateRenewalFindsTheTermClosed(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		token := a.wins(1)
		a.Releasing(token, protocol.Heir{}, nil).Try(testLease)
		if got := p.lateRenewal(0, a, token); got.Status != protocol.NoLock || p.locks() != 0 {
			t.Errorf("after its release: %+v, %d locks", got, p.locks())
		}
		p.redis[0].Del(p.keys.Lock)

		token = a.wins(1)
		p.redis[0].Del(p.keys.Lock) // lapsed
		other := b.wins(1)
		if got := p.lateRenewal(0, a, token); got.Status != protocol.Taken {
			t.Errorf("while another holds the lock: %+v", got)
		}
		p.redis[0].Del(p.keys.Lock) // b's lapsed too: its term was never closed
		if got := p.lateRenewal(0, a, token); got.Status != protocol.NoLock || p.locks() != 0 {
			t.Errorf("after others (token %d) came and went: %+v, %d locks", other, got, p.locks())
		}
	})
}

// Nodes that grant different tokens have agreed on nothing yet.
func TestLowerGrantsAreRaised(t *testing.T) {
	atThePolls(t, 5, func(t *testing.T, p *polls) {
		p.counters("10", "2", "3", "4", "5")
		a := p.voter("a")
		token := a.wins(1)
		if token != 11 {
			t.Fatalf("token %d, want 11", token)
		}
		for i := range p.redis {
			if fence := p.get(i, p.keys.Fence); fence != "11" {
				t.Errorf("node %d: its counter is %s, the term has token 11", i, fence)
			}
		}
		// The leader dies at once, and the node that named its token with it.
		time.Sleep(testLease + time.Millisecond)
		b := p.voter("b")
		b.lines[0].cut.Store(true)
		if next := b.wins(1); next <= token {
			t.Errorf("token %d after %d", next, token)
		}
	})
}

// A node that lost the lock between the grant and the raise does not agree.
func TestRaiseAsksWhoseLockItIs(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("10", "2", "3")
		for i := 1; i < 3; i++ {
			p.onScript(i, protocol.RaiseScript, func() { p.redis[i].Del(p.keys.Lock) })
		}
		a := p.voter("a")
		a.loses()
		time.Sleep(time.Second)
		if p.locks() != 0 {
			t.Error("the grants of a claim that failed were kept")
		}
	})
}

func TestPausedNodesRefuse(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("1")
		for _, m := range p.redis[:2] {
			_ = m.Set(p.keys.Pause, "a migration")
		}
		if tally := p.voter("a").loses(); tally.Count(protocol.Paused) != 2 || tally.Answers[0].Note != "a migration" {
			t.Errorf("%+v", tally.Answers)
		}
	})
}

// The reservation of an heir is bounded in time, whatever wrote it.
func TestReservationForAnHeirLapses(t *testing.T) {
	const keep = 2 * time.Second
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a, b, heir := p.voter("a"), p.voter("b"), protocol.Heir{Incarnation: "incghost", Keep: keep}
		token := a.wins(1)
		a.renew(testLease, token, heir, fit)
		if ttl := p.redis[0].TTL(p.keys.Heir); ttl <= testLease || ttl > testLease+keep {
			t.Errorf("after a renewal the reservation is kept for %v", ttl)
		}
		a.Releasing(token, heir, nil).Try(testLease)
		if ttl := p.redis[0].TTL(p.keys.Heir); ttl <= 0 || ttl > keep {
			t.Errorf("after a release the reservation is kept for %v", ttl)
		}
		if tally := b.loses(); tally.Answers[0].Status != protocol.Reserved || tally.Answers[0].Left > keep {
			t.Errorf("%+v", tally.Answers)
		}
		time.Sleep(keep + time.Millisecond)
		b.Releasing(b.wins(1), protocol.Heir{}, nil).Try(testLease)

		_ = p.redis[0].Set(p.keys.Heir, "!incghost") // by hand: without an end
		b.wins(1)
		if reservation := p.get(0, p.keys.Heir); reservation != "" {
			t.Errorf("the reservation is still %q: it would be read each time", reservation)
		}
	})
}

func TestReleaseTakesOnlyWhatIsMine(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		token := a.wins(1)
		p.redis[0].Del(p.keys.Lock)
		b.wins(1)
		if tally := a.Releasing(token, protocol.Heir{}, nil).Try(testLease); tally.Count(protocol.Taken) != 1 || !strings.HasPrefix(p.get(0, p.keys.Lock), "b/") {
			t.Errorf("%+v; the lock is %q", tally.Answers, p.get(0, p.keys.Lock))
		}
		// The late release of an attempt that was given up leaves the newer one alone.
		old := b.seq
		b.Abandon()
		b.WaitIdle(time.Minute)
		b.wins(1)
		if got := p.run(0, protocol.ReleaseScript, protocol.Request{Incarnation: b.cfg.Incarnation, Seq: old, Closed: 1}); got.Status != protocol.Taken || p.locks() != 1 {
			t.Errorf("%+v, %d locks", got, p.locks())
		}
	})
}

// A claim whose answer was lost holds the lock: the next one of this incarnation
// recognises it. The lock of an earlier life under the same id stays another's.
func TestOwnPhantomIsNoObstacle(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a := p.voter("a")
		a.lines[0].answersLost.Store(true)
		a.loses()
		phantom := a.lock.String()
		a.WaitIdle(time.Minute)
		a.lines[0].answersLost.Store(false)
		// Its clean-up got lost.
		p.onScript(0, protocol.ClaimScript, func() { _ = p.redis[0].Set(p.keys.Lock, phantom+" token=2") })
		a.wins(1)
		p.onScript(0, protocol.ClaimScript, func() {})

		_ = p.redis[0].Set(p.keys.Lock, "a/earlier/1 n=1 lease=10000 token=2")
		if tally := a.loses(); tally.Answers[0].Status != protocol.Held {
			t.Errorf("%+v", tally.Answers)
		}
	})
}

// A foreign hint can't use the numbers up, and what is left of them is guarded.
func TestHintsAreBounded(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a := p.voter("a")
		token := a.wins(1<<53 - 2)
		if limit := uint64(time.Now().Add(time.Hour).UnixMilli()); token > limit {
			t.Errorf("token %d: a hint of the year 287396 was taken", token)
		}
		a.Releasing(token, protocol.Heir{}, nil).Try(testLease)
		_ = p.redis[0].Set(p.keys.Fence, strconv.FormatUint(1<<53-2, 10))
		if tally := a.loses(); tally.Answers[0].Err == nil || !strings.Contains(tally.Answers[0].Err.Error(), "2^53") {
			t.Errorf("%+v", tally.Answers)
		}
	})
}

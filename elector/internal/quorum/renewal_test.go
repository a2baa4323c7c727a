package quorum

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// A leader's round ends with the majority: whatever else is wrong with the third node, the lease is renewed.
func TestRenewalDoesNotWaitForAMinority(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("1")
		a := p.voter("a")
		token := a.wins(1)
		a.renew(testLease, token, protocol.Heir{}, fit) // the nodes know the script
		time.Sleep(time.Second)
		p.Each(testredis.Fault{Late: trip})
		a.line(2, testredis.Fault{Late: 5 * trip})
		began := time.Now()
		if tally := a.renew(testLease, token, protocol.Heir{}, fit); !tally.Majority(protocol.Renewed) || time.Since(began) != trip {
			t.Errorf("it took %v: %+v", time.Since(began), tally.Answers)
		}
	})
}

// What a renewal leaves on a node, whatever it finds there.
func TestWhatARenewalLeavesBehind(t *testing.T) {
	heir := protocol.Heir{Incarnation: "incc", Keep: time.Second}
	for name, c := range map[string]struct {
		heir          protocol.Heir
		change        func(p *cluster)
		status        protocol.Status
		reserved      string
		reservedFor   time.Duration
		lock, counter string // empty: as before
		note          string
	}{
		"nothing is wrong": {},
		"an heir":          {heir: heir, reserved: "!incc", reservedFor: testLease + time.Second},
		"another heir before": {heir: heir, reserved: "!incc", reservedFor: testLease + time.Second, change: func(p *cluster) {
			_ = p.redis[0].Set(p.keys.Heir, "!incb")
		}},
		"an heir before":         {change: func(p *cluster) { _ = p.redis[0].Set(p.keys.Heir, "!incb") }},
		"the counter went back":  {change: func(p *cluster) { _ = p.redis[0].Set(p.keys.Fence, "1") }},
		"the counter is gone":    {change: func(p *cluster) { p.redis[0].Del(p.keys.Fence) }},
		"the lock is another's":  {status: protocol.Taken, lock: "b/incb/1 n=1 lease=10000", change: func(p *cluster) { _ = p.redis[0].Set(p.keys.Lock, "b/incb/1 n=1 lease=10000") }},
		"the lock is of a later": {status: protocol.Taken, lock: "a/inca/9 n=1 lease=10000", change: func(p *cluster) { _ = p.redis[0].Set(p.keys.Lock, "a/inca/9 n=1 lease=10000") }},
		"the lock has another token": {change: func(p *cluster) {
			_ = p.redis[0].Set(p.keys.Lock, "a/inca/1 n=1 lease=10000 token=1")
			p.redis[0].SetTTL(p.keys.Lock, testLease/2)
		}},
		"paused":           {note: "maintenance", change: func(p *cluster) { _ = p.redis[0].Set(p.keys.Pause, "maintenance") }},
		"the lock is gone": {status: protocol.Planted, change: func(p *cluster) { p.redis[0].Del(p.keys.Lock) }},
		"all is gone, and there is an heir": {
			heir: heir, status: protocol.Planted, note: "forgot", reserved: "!incc", reservedFor: testLease + time.Second,
			change: func(p *cluster) { p.redis[0].FlushAll() },
		},
	} {
		sub(t, name, 1, func(t *testing.T, p *cluster) {
			p.counters("41")
			a := p.voter("a")
			token := a.wins(1)
			for range 2 {
				a.renew(testLease, token, c.heir, fit)
			}
			lock, counter := cmp.Or(c.lock, p.get(0, p.keys.Lock)), p.get(0, p.keys.Fence)
			time.Sleep(testLease / 2)
			if c.change != nil {
				c.change(p)
			}
			if got := a.renew(testLease, token, c.heir, fit).Answers[0]; got.Status != cmp.Or(c.status, protocol.Renewed) || got.Note != c.note {
				t.Errorf("%+v", got)
			}
			if got := p.get(0, p.keys.Lock); got != lock {
				t.Errorf("the lock is %q, want %q", got, lock)
			}
			if ttl := p.redis[0].TTL(p.keys.Lock); c.status != protocol.Taken && ttl != testLease {
				t.Errorf("the lock lives for %v", ttl)
			}
			if got := p.get(0, p.keys.Fence); got != counter {
				t.Errorf("the counter is %s, want %s", got, counter)
			}
			if got, ttl := p.get(0, p.keys.Heir), p.redis[0].TTL(p.keys.Heir); got != c.reserved || ttl != c.reservedFor {
				t.Errorf("reserved for %q, for %v", got, ttl)
			}
		})
	}
}

// A renewal carries the token to nodes that don't know it: into their counter,
// so that they hand out higher ones only, and into their lock, so that everybody
// is told the same token.
func TestRenewalCopiesTheToken(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("10", "20", "5")
		a := p.voter("a")
		a.line(2, testredis.Down)
		token := a.wins(1)
		if token != 21 {
			t.Fatalf("token %d, want one more than the highest counter", token)
		}
		a.line(2, testredis.Fault{})
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
		b.line(0, testredis.Down)
		if next := b.wins(1); next <= token {
			t.Errorf("token %d after %d", next, token)
		}
	})
}

func TestPlantIsNoVoteInItsRound(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("1")
		a := p.voter("a")
		token := a.wins(1)
		p.redis[1].FlushAll()
		a.line(2, testredis.Down)
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
	bubble(t, 1, func(t *testing.T, p *cluster) {
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

// A renewal that is not answered is sent again to a node from which nothing comes, not to one that answers others.
func TestBusyNodeIsNotAskedAgain(t *testing.T) {
	for name, busy := range map[string]bool{"silent": false, "busy": true} {
		sub(t, name, 1, func(t *testing.T, p *cluster) {
			all := p.process(2)
			a, other := all.voters[0], all.voters[1]
			time.Sleep(testLease / 2)
			all.watch(0, func(calls []testredis.Request, _ *server.Peer) bool {
				time.Sleep(testLease / 20)
				if calls[0].Keys[0] == a.cfg.Keys.Lock {
					time.Sleep(testLease / 2)
				}
				return false
			})
			if busy {
				go other.renew(testLease, all.tokens[1], protocol.Heir{}, fit)
				synctest.Wait()
			}
			a.Renew(time.Now().Add(testLease), all.tokens[0], protocol.Heir{}, fit)
			time.Sleep(testLease / 10)
			a.RenewAgain()
			if sent := a.renewal.pending[0]; (sent == 1) != busy {
				t.Errorf("sent %d times", sent)
			}
		})
	}
}

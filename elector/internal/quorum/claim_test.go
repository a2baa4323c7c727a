package quorum

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

func TestNodeThatForgotAbstainsForALease(t *testing.T) {
	for _, n := range []int{1, 3} {
		sub(t, fmt.Sprintf("n=%d", n), n, func(t *testing.T, p *cluster) {
			p.counters("1")
			a, b := p.voter("a"), p.voter("b")
			a.wins(1)
			for _, m := range p.redis[:n/2+1] {
				m.FlushAll()
			}
			began := time.Now()
			for time.Since(began) < testLease-time.Second {
				if tally := b.loses(); tally.Count(protocol.Abstains) != n/2+1 {
					t.Fatalf("after %v: %+v", time.Since(began), tally.Answers)
				}
				time.Sleep(time.Second)
			}
			time.Sleep(testLease - time.Since(began) + time.Millisecond)
			b.wins(1)
		})
	}
}

// The abstention is bounded in time, too, whoever wrote the marker and whatever
// the node's clock did since.
func TestAbstentionLapses(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		p.counters("1")
		_ = p.redis[0].Set(p.keys.New, "by hand")
		a := p.voter("a")
		if tally := a.loses(); tally.Count(protocol.Abstains) != 1 {
			t.Errorf("%+v", tally.Answers)
		}
		time.Sleep(testLease + time.Millisecond)
		a.wins(1)
	})
}

// A bootstrap names the markers that it found. A node that forgot after that has
// another one, and abstains.
func TestBootstrapNamesTheMarkersItFound(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		a, b := p.voter("a"), p.voter("b")
		tally := a.loses()
		if tally.Count(protocol.Abstains) != 3 {
			t.Fatalf("%+v", tally.Answers)
		}
		var markers []string
		for _, answer := range tally.Answers {
			markers = append(markers, answer.Note)
		}
		p.redis[0].FlushAll()
		b.loses()
		token, tally := a.Claim(t.Context(), 1, markers, "")
		if token == 0 || tally.Answers[0].Status != protocol.Abstains {
			t.Errorf("token %d, %+v", token, tally.Answers)
		}
		for i := range p.redis {
			if marked := p.get(i, p.keys.New) != ""; marked != (i == 0) {
				t.Errorf("node %d: marked as new: %v", i, marked)
			}
		}
	})
}

// What is no number, or no string at all, is named and stops the script before it has
// written anything.
func TestKeysOfAnotherKindAreNamed(t *testing.T) {
	k := protocol.KeysOf("mandate", "orders")
	for _, key := range []string{k.Lock, k.Fence, k.New, k.Pause, k.Heir} {
		bubble(t, 1, func(t *testing.T, p *cluster) {
			p.counters("1")
			p.redis[0].Del(key)
			_, _ = p.redis[0].Push(key, "a list")
			before := p.redis[0].Dump()
			tally := p.voter("a").loses()
			if err := tally.Answers[0].Err; err == nil || !strings.HasPrefix(err.Error(), "MANDATE key "+key+" holds another type") || !rediserr.Permanent(err) {
				t.Errorf("%s: %v", key, err)
			}
			if after := p.redis[0].Dump(); after != before {
				t.Errorf("%s: the script wrote\n%s", key, after)
			}
		})
	}
	for _, fence := range []string{"12x", "-1", "1.5", "1e3", "", " 1"} {
		bubble(t, 1, func(t *testing.T, p *cluster) {
			p.counters(fence)
			if err := p.voter("a").loses().Answers[0].Err; err == nil || !strings.Contains(err.Error(), "MANDATE key "+k.Fence+" holds no number") {
				t.Errorf("counter %q: %v", fence, err)
			}
		})
	}
}

// What stands in the way for much longer than a lease was not put there by us, or the
// clock of the node was set back: it must not block the election for that long. What
// was put there in order keeps its end.
func TestForeignTTLIsCutShort(t *testing.T) {
	k := protocol.KeysOf("mandate", "orders")
	const ours = "x/inc/1 n=1 lease=4000 token=1"
	for name, tc := range map[string]struct {
		key, value string
		ttl, want  time.Duration // ttl 0: no end
		status     protocol.Status
		forgot     bool // the counter
	}{
		"a marker without an end":    {k.New, "m", 0, testLease, protocol.Abstains, false},
		"a marker in order":          {k.New, "m", 2 * testLease, 2 * testLease, protocol.Abstains, false},
		"a marker beyond it":         {k.New, "m", 2*testLease + time.Millisecond, testLease, protocol.Abstains, false},
		"a marker beside no counter": {k.New, "m", 3 * time.Second, 3 * time.Second, protocol.Abstains, true},
		"a reservation in order":     {k.Heir, "!ghost", 2 * testLease, 2 * testLease, protocol.Reserved, false},
		"a lock without an end":      {k.Lock, ours, 0, 4 * time.Second, protocol.Held, false},
		"a lock in order":            {k.Lock, ours, 4 * time.Second, 4 * time.Second, protocol.Held, false},
		"a lock near its end":        {k.Lock, ours, time.Second, time.Second, protocol.Held, false},
		"a lock beyond its lease":    {k.Lock, ours, 4*time.Second + time.Millisecond, 4 * time.Second, protocol.Held, false},
		"a lock that claims none":    {k.Lock, "x/inc/1 n=1 lease=0", time.Second, time.Second, protocol.Held, false},
		"a lock of another program":  {k.Lock, "locked", time.Hour, time.Hour, protocol.Held, false},
	} {
		sub(t, name, 1, func(t *testing.T, p *cluster) {
			if !tc.forgot {
				p.counters("1")
			}
			_ = p.redis[0].Set(tc.key, tc.value)
			if tc.ttl > 0 {
				p.redis[0].SetTTL(tc.key, tc.ttl)
			}
			a := p.voter("a").loses().Answers[0]
			if a.Status != tc.status || a.Left != tc.want {
				t.Errorf("%s for %v, want %s for %v", a.Status, a.Left, tc.status, tc.want)
			}
			if ttl := p.redis[0].TTL(tc.key); ttl != tc.want {
				t.Errorf("the key lives for %v, want %v", ttl, tc.want)
			}
			if tc.status == protocol.Held && a.Holder != tc.value || tc.status == protocol.Abstains && a.Note != tc.value {
				t.Errorf("the holder is %q, the marker %q", a.Holder, a.Note)
			}
		})
	}
}

// straggler makes a voter win token 3 on the first two nodes, and have a grant of 11
// from the third one a little later.
func (p *cluster) straggler(t *testing.T) (a *testVoter, token uint64) {
	t.Helper()
	p.counters("2", "2", "10")
	a = p.voter("a")
	a.line(2, dialing(time.Second))
	if token = a.wins(1); token != 3 {
		t.Fatalf("token %d, want 3", token)
	}
	time.Sleep(2 * time.Second)
	a.drain()
	a.line(2, testredis.Fault{})
	if fence := p.get(2, p.keys.Fence); fence != "11" {
		t.Fatalf("the counter of the straggler is %s, want 11", fence)
	}
	return a, token
}

// A node whose counter is ahead of the agreed token has handed the numbers between
// out, to nobody who counts: lowered, it would hand one of them out again.
func TestCountersAreNeverLowered(t *testing.T) {
	for name, f := range map[string]func(p *cluster, a *testVoter, token uint64) Tally{
		"by a renewal": func(p *cluster, a *testVoter, token uint64) Tally {
			return a.renew(testLease, token, protocol.Heir{}, fit)
		},
		"by a plant": func(p *cluster, a *testVoter, token uint64) Tally {
			p.redis[2].Del(p.keys.Lock)
			tally := a.renew(testLease, token, protocol.Heir{}, fit)
			synctest.Wait()
			if p.get(2, p.keys.Lock) == "" {
				p.t.Errorf("not planted, although nothing has come since what this node told the term: %+v", tally.Answers)
			}
			return tally
		},
		"by a release": func(p *cluster, a *testVoter, token uint64) Tally {
			return a.Releasing(token, protocol.Heir{}, nil).Try(testLease)
		},
		"by a release after claims that it knows nothing of": func(p *cluster, a *testVoter, token uint64) Tally {
			_ = p.redis[2].Set(p.keys.Fence, "20")
			return a.Releasing(token, protocol.Heir{}, nil).Try(testLease)
		},
	} {
		sub(t, name, 3, func(t *testing.T, p *cluster) {
			a, token := p.straggler(t)
			tally := f(p, a, token)
			synctest.Wait() // it does not wait for all
			want := "11"
			switch name {
			case "by a release":
				want = "12"
			case "by a release after claims that it knows nothing of":
				want = "20"
			}
			if fence := p.get(2, p.keys.Fence); fence != want {
				t.Errorf("the counter is %s, want %s: %+v", fence, want, tally.Answers)
			}
		})
	}
}

// The counter of a node that another holds may be the very token of the other's term.
func TestHeldNodesNameNoToken(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("4", "4", "8")
		b := p.voter("b")
		b.line(0, testredis.Down)
		other := b.wins(1)
		p.redis[1].Del(p.keys.Lock) // lost there, and the counter with it
		_ = p.redis[1].Set(p.keys.Fence, "4")
		if token := p.voter("a").wins(1); token != 5 || token == other {
			t.Errorf("token %d, want 5; the other term has %d", token, other)
		}
	})
}

// Attempts are numbers and no words: the tenth is newer than the ninth.
func TestTheTenthAttemptIsNewerThanTheNinth(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		p.counters("1")
		a := p.voter("a")
		a.seq = 8
		for range 3 { // 9, 10, 11: each finds the lock of the one before
			a.wins(1)
		}
	})
}

// A wall clock stands in for a counter that was lost, within bounds.
func TestClockHints(t *testing.T) {
	clock := func() uint64 { return uint64(time.Now().UnixMilli()) }
	const hour = 3600000
	for name, tc := range map[string]struct {
		n     int
		fence string
		hint  func() uint64 // the candidate's clock
		want  func() uint64
	}{
		"a node alone adds its own clock":      {1, "1", func() uint64 { return 1 }, clock},
		"and takes one that is ahead":          {1, "1", func() uint64 { return clock() + 5 }, func() uint64 { return clock() + 5 }},
		"one of several does not":              {3, "1", func() uint64 { return 1 }, func() uint64 { return 2 }},
		"an hour ahead is taken":               {3, "1", func() uint64 { return clock() + hour }, func() uint64 { return clock() + hour }},
		"more counts as an hour":               {3, "", func() uint64 { return clock() + 61*hour/60 }, func() uint64 { return clock() + hour }},
		"on a node alone, too":                 {1, "1", func() uint64 { return clock() + 1000*hour }, func() uint64 { return clock() + hour }},
		"a counter ahead of the hint goes on":  {3, "1000", func() uint64 { return 999 }, func() uint64 { return 1001 }},
		"the last number that can be said":     {3, "9007199254740989", func() uint64 { return 1 }, func() uint64 { return 1<<53 - 2 }},
		"a new one of several starts with one": {3, "", func() uint64 { return 1 }, func() uint64 { return 1 }},
		"what was seen counts as it is":        {3, "", nil, func() uint64 { return clock() + 2*hour }},
		"on a node alone that is behind, too":  {1, "", nil, func() uint64 { return clock() + 2*hour }},
	} {
		sub(t, name, tc.n, func(t *testing.T, p *cluster) {
			time.Sleep(7006 * time.Microsecond) // the clocks show fractions, and zeros before them
			a := p.voter("a")
			var markers []string
			if tc.fence != "" {
				p.counters(tc.fence)
			} else {
				for _, answer := range a.loses().Answers {
					markers = append(markers, answer.Note)
				}
			}
			seen, hint := uint64(1), tc.want()
			if tc.hint != nil {
				hint = tc.hint()
			} else {
				seen = hint
			}
			token, tally := a.Voter.Claim(t.Context(), func(Tally) uint64 { return seen }, hint, markers, "")
			if want := tc.want(); token != want {
				t.Errorf("token %d, want %d: %+v", token, want, tally.Answers)
			}
		})
	}
}

// One server under two addresses has one vote.
func TestOneServerHasOneVote(t *testing.T) {
	for same, won := range map[int]int{2: 2, 3: 1} {
		sub(t, fmt.Sprintf("%d of 3", same), 3, func(t *testing.T, p *cluster) {
			p.counters("1")
			for _, n := range p.Nodes[3-same:] {
				n.Balance(func(string) *testredis.Node { return p.Nodes[2] })
			}
			a := p.voter("a")
			_, tally := a.Claim(t.Context(), 1, nil, "")
			if tally.Count(protocol.Won) != won || tally.Count(protocol.SameServer) != 3-won || len(tally.Errors()) != 3-won {
				t.Errorf("%+v", tally.Answers)
			}
			for _, err := range tally.Errors() {
				if !strings.Contains(err.Error(), "listed twice") {
					t.Error(err)
				}
			}
		})
	}
}

// Nodes that grant different tokens have agreed on nothing yet.
func TestLowerGrantsAreRaised(t *testing.T) {
	bubble(t, 5, func(t *testing.T, p *cluster) {
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
		b.line(0, testredis.Down)
		if next := b.wins(1); next <= token {
			t.Errorf("token %d after %d", next, token)
		}
	})
}

// A node that lost the lock between the grant and the raise does not agree.
func TestRaiseAsksWhoseLockItIs(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
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
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("1")
		for _, m := range p.redis[:2] {
			_ = m.Set(p.keys.Pause, "a migration")
		}
		if tally := p.voter("a").loses(); tally.Count(protocol.Paused) != 2 || tally.Answers[0].Note != "a migration" {
			t.Errorf("%+v", tally.Answers)
		}
	})
}

// A claim whose answer was lost holds the lock: the next one of this incarnation
// recognises it. The lock of an earlier life under the same id stays another's.
func TestOwnPhantomIsNoObstacle(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		p.counters("1")
		a := p.voter("a")
		a.line(0, testredis.Fault{Down: testredis.Drop})
		a.loses()
		phantom := a.lock.String()
		a.WaitIdle(time.Minute)
		a.line(0, testredis.Fault{})
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
	bubble(t, 1, func(t *testing.T, p *cluster) {
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

// Claims that are won and given back while a node hangs must leave no goroutine behind: no term takes
// their late answers.
func TestAbandonedClaimsLeaveNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("1")
		b := p.voter("a")
		b.line(2, testredis.Fault{Down: testredis.Hold})
		for _, pause := range []time.Duration{testLease, 0} { // 0: the node has not answered the first claim when the last is over
			for range 100 {
				b.wins(1)
				b.Abandon()
				time.Sleep(pause)
			}
			time.Sleep(10 * testLease)
			if n := b.background.Count(); n > 0 {
				t.Errorf("claims every %v: %d goroutines are left", pause, n)
			}
			b.drain()
		}
	})
}

// What one slow node grants to a lost claim is given back when its answer comes, whatever another does.
func TestLateGrantsAreGivenBackApart(t *testing.T) {
	bubble(t, 5, func(t *testing.T, p *cluster) {
		p.counters("1")
		b := p.voter("b")
		b.wins(1)
		b.Abandon()
		b.WaitIdle(time.Minute) // all lines have their connections
		for node := range 3 {
			_ = p.redis[node].Set(p.keys.Lock, "a/inca/1 n=5 lease=10000")
			p.redis[node].SetTTL(p.keys.Lock, testLease)
		}
		b.line(3, testredis.Fault{Late: 500 * time.Millisecond})
		b.line(4, testredis.Fault{Late: 600 * time.Millisecond})
		time.AfterFunc(400*time.Millisecond, func() { b.line(3, testredis.Fault{Down: testredis.Hold}) }) // it hangs from then on
		b.loses()
		time.Sleep(1500 * time.Millisecond)
		if left := p.redis[4].TTL(p.keys.Lock); left > 0 {
			t.Errorf("0.9 s after its answer a node still holds the lock of a lost claim, for %v more", left)
		}
	})
}

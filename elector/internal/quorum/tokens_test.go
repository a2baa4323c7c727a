package quorum

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// straggler makes a voter win token 3 on the first two nodes, and have a grant of 11
// from the third one a little later.
func (p *polls) straggler(t *testing.T) (a *booth, token uint64) {
	t.Helper()
	p.counters("2", "2", "10")
	a = p.voter("a")
	a.lines[2].dial.Store(int64(time.Second))
	if token = a.wins(1); token != 3 {
		t.Fatalf("token %d, want 3", token)
	}
	time.Sleep(2 * time.Second)
	a.drain()
	a.lines[2].dial.Store(0)
	if fence := p.get(2, p.keys.Fence); fence != "11" {
		t.Fatalf("the counter of the straggler is %s, want 11", fence)
	}
	return a, token
}

// A node whose counter is ahead of the agreed token has handed the numbers between
// out, to nobody who counts: lowered, it would hand one of them out again.
func TestCountersAreNeverLowered(t *testing.T) {
	for name, f := range map[string]func(p *polls, a *booth, token uint64) Tally{
		"by a renewal": func(p *polls, a *booth, token uint64) Tally {
			return a.renew(testLease, token, protocol.Heir{}, fit)
		},
		"by a plant": func(p *polls, a *booth, token uint64) Tally {
			p.redis[2].Del(p.keys.Lock)
			tally := a.renew(testLease, token, protocol.Heir{}, fit)
			synctest.Wait()
			if p.get(2, p.keys.Lock) == "" {
				p.t.Errorf("not planted, although nothing has come since what this node told the term: %+v", tally.Answers)
			}
			return tally
		},
		"by a release": func(p *polls, a *booth, token uint64) Tally {
			return a.Releasing(token, protocol.Heir{}, nil).Try(testLease)
		},
		"by a release after claims that it knows nothing of": func(p *polls, a *booth, token uint64) Tally {
			_ = p.redis[2].Set(p.keys.Fence, "20")
			return a.Releasing(token, protocol.Heir{}, nil).Try(testLease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			atThePolls(t, 3, func(t *testing.T, p *polls) {
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
		})
	}
}

// Answers may overtake each other: a renewal that is still under way may have been shown the higher of two counters.
func TestReleaseClosesAboveTheHighestCounterShown(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("4", "4", "4")
		a := p.voter("a")
		token := a.wins(1)
		for _, counter := range []string{"60", "50"} {
			for _, n := range p.redis {
				_ = n.Set(p.keys.Fence, counter)
			}
			a.renew(testLease, token, protocol.Heir{}, fit)
		}
		a.Releasing(token, protocol.Heir{}, nil).Try(testLease)
		synctest.Wait()
		closed := 0
		for node := range p.redis {
			if p.get(node, p.keys.Fence) == "61" {
				closed++
			}
		}
		if closed < 2 { // the third node's answers may have come after those of the majority
			t.Errorf("%d nodes have closed the token above what they have shown", closed)
		}
	})
}

// The counter of a node that another holds may be the very token of the other's term.
func TestHeldNodesNameNoToken(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("4", "4", "8")
		b := p.voter("b")
		b.lines[0].cut.Store(true)
		other := b.wins(1)
		p.redis[1].Del(p.keys.Lock) // lost there, and the counter with it
		_ = p.redis[1].Set(p.keys.Fence, "4")
		if token := p.voter("a").wins(1); token != 5 || token == other {
			t.Errorf("token %d, want 5; the other term has %d", token, other)
		}
	})
}

// A release writes a counter. On a node that forgot it must write the marker as well,
// or the node, no longer new, would vote at once.
func TestReleaseDoesNotHideThatANodeForgot(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		token := a.wins(1)
		p.redis[0].FlushAll()
		if tally := a.Releasing(token, protocol.Heir{}, nil).Try(testLease); tally.Count(protocol.NoLock) != 1 {
			t.Errorf("%+v", tally.Answers)
		}
		if tally := b.loses(); tally.Count(protocol.Abstains) != 1 || tally.Answers[0].Left != testLease {
			t.Errorf("a node that forgot votes: %+v", tally.Answers)
		}
		time.Sleep(testLease + time.Millisecond)
		b.wins(1)
	})
}

// A lease is renewed for its whole length, whichever way the lock is written.
func TestRenewalProlongs(t *testing.T) {
	for name, lock := range map[string]string{"the same value": "", "the same value, paused": "", "another token": "a/inca/1 n=1 lease=10000 token=1"} {
		t.Run(name, func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
				p.counters("1")
				a := p.voter("a")
				token := a.wins(1)
				a.renew(testLease, token, protocol.Heir{}, fit) // from now on the value stays as it is
				time.Sleep(testLease / 2)
				if strings.HasSuffix(name, "paused") {
					_ = p.redis[0].Set(p.keys.Pause, "maintenance")
				}
				if lock != "" {
					_ = p.redis[0].Set(p.keys.Lock, lock)
					p.redis[0].SetTTL(p.keys.Lock, testLease/2)
				}
				if tally := a.renew(testLease, token, protocol.Heir{}, fit); tally.Count(protocol.Renewed) != 1 {
					t.Errorf("%+v", tally.Answers)
				}
				if ttl := p.redis[0].TTL(p.keys.Lock); ttl != testLease {
					t.Errorf("the lock lives for %v, want %v", ttl, testLease)
				}
			})
		})
	}
}

// Attempts are numbers and no words: the tenth is newer than the ninth.
func TestTheTenthAttemptIsNewerThanTheNinth(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
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
		hint  func() uint64
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
	} {
		t.Run(name, func(t *testing.T) {
			atThePolls(t, tc.n, func(t *testing.T, p *polls) {
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
				token, tally := a.Claim(t.Context(), tc.hint(), markers, "")
				if want := tc.want(); token != want {
					t.Errorf("token %d, want %d: %+v", token, want, tally.Answers)
				}
			})
		})
	}
}

// One server under two addresses has one vote.
func TestOneServerHasOneVote(t *testing.T) {
	for same, won := range map[int]int{2: 2, 3: 1} {
		t.Run(fmt.Sprintf("%d of 3", same), func(t *testing.T) {
			atThePolls(t, 3, func(t *testing.T, p *polls) {
				p.counters("1")
				own := p.redis
				defer func() { p.redis = own }()
				p.redis = append(append([]*miniredis.Miniredis(nil), own[:3-same]...), own[2], own[2], own[2])[:3]
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
		})
	}
}

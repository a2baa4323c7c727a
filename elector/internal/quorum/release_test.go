package quorum

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// The answer of a release is lost, so it is sent again: the node closes the token once,
// above all that a late renewal of the term can name, and what came after is left alone.
func TestReleaseIsTheSameTwice(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		token := a.wins(1)
		raised := token + 5 // by claims that others have lost
		_ = p.redis[0].Set(p.keys.Fence, strconv.FormatUint(raised, 10))
		if tally := a.renew(testLease, token, protocol.Heir{}, fit); !tally.Majority(protocol.Renewed) {
			t.Fatalf("%+v", tally.Answers)
		}
		must(t, protocol.ReleaseScript.Load(t.Context(), p.own[0]).Err()) // or only the hash gets there
		r := a.Releasing(token, protocol.Heir{}, nil)
		a.line(0, testredis.Fault{Down: testredis.Drop})
		if tally := r.Try(testLease); tally.Count(protocol.Unknown) != 1 || r.Definite() || r.Left() != 1 {
			t.Fatalf("%+v, definite %v", tally.Answers, r.Definite())
		}
		closed := p.get(0, p.keys.Fence)
		a.line(0, testredis.Fault{})
		if tally := r.Try(testLease); tally.Count(protocol.NoLock) != 1 || !r.Definite() || r.Left() != 0 {
			t.Errorf("%+v, definite %v", tally.Answers, r.Definite())
		}
		if now := p.get(0, p.keys.Fence); now != closed || p.locks() != 0 {
			t.Errorf("the counter is %s, was %s; %d locks", now, closed, p.locks())
		}
		renewal := protocol.Request{
			Value: a.lock.String(), Incarnation: a.cfg.Incarnation, Seq: a.seq, Token: token, Shown: raised, Identity: protocol.NewIdentity(),
		}
		if got := p.run(0, protocol.RenewScript, renewal); got.Status != protocol.NoLock || p.locks() != 0 {
			t.Errorf("a late renewal: %+v, %d locks", got, p.locks())
		}

		late := func() protocol.Answer {
			return p.run(0, protocol.ReleaseScript, protocol.Request{
				Value: r.value, Incarnation: a.cfg.Incarnation, Seq: r.seq, Token: token, Closed: max(token, r.counters[0]) + 1,
			})
		}
		other := b.wins(1)
		if got := late(); got.Status != protocol.Taken || p.locks() != 1 {
			t.Errorf("under another's term: %+v, %d locks", got, p.locks())
		}
		b.Releasing(other, protocol.Heir{}, nil).Try(testLease)
		a.wins(1)
		if got := late(); got.Status != protocol.Taken || p.locks() != 1 {
			t.Errorf("under the next term of the same incarnation: %+v, %d locks", got, p.locks())
		}
	})
}

// Another process releases the term of one that died: on a node that does not hold its lock it changes
// nothing, be it free (perhaps the wrong node), another's, or a later term's of the same incarnation.
func TestReleaseForAnotherProcess(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		token := a.wins(1)
		attempt := a.seq
		release := func() Tally {
			return NewVoterOf(b.nodes, a.cfg, attempt, token).Releasing(token, protocol.Heir{}, []byte("crashed")).Try(testLease)
		}
		keys := func() string { return p.redis[0].Dump() }
		if tally := release(); tally.Count(protocol.Released) != 1 || p.locks() != 0 {
			t.Fatalf("%+v, %d locks", tally.Answers, p.locks())
		}
		if got := p.lateRenewal(0, a, token); got.Status != protocol.NoLock || p.locks() != 0 {
			t.Errorf("a late renewal: %+v, %d locks", got, p.locks())
		}
		unchanged := func(what string, want protocol.Status) {
			t.Helper()
			before := keys()
			if tally := release(); tally.Count(want) != 1 || keys() != before {
				t.Errorf("%s: %+v; the node had\n%s\nand now\n%s", what, tally.Answers, before, keys())
			}
		}
		unchanged("a lock that is free", protocol.NoLock)
		other := b.wins(1)
		unchanged("a lock of another", protocol.Taken)
		b.Releasing(other, protocol.Heir{}, nil).Try(testLease)
		a.wins(1)
		unchanged("a later term of the same incarnation", protocol.Taken)
		p.redis[0].FlushAll()
		unchanged("a node that knows nothing of the election", protocol.NoLock)
	})
}

// messages notes what is published on a channel of a node, by so many subscribers.
func (p *cluster) messages(node int, channel string, subscribers int) func() []string {
	p.t.Helper()
	var mu sync.Mutex
	var got []string
	for i := range subscribers {
		ps := p.own[node].Subscribe(p.t.Context(), channel)
		_, err := ps.Receive(p.t.Context())
		must(p.t, err)
		p.t.Cleanup(func() { ps.Close() })
		go func() {
			for m := range ps.Channel() {
				if mu.Lock(); i == 0 {
					got = append(got, m.Payload)
				}
				mu.Unlock()
			}
		}()
	}
	return func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		all := got
		got = nil
		return all
	}
}

// A release publishes the end of the term once, with its token, who goes first and the event, whoever
// holds the lock by then; an attempt that was given up ended no term: it publishes nothing and closes no token.
func TestReleasePublishesTheEndOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		next        string // before
		heir        protocol.Heir
		do          func(p *cluster, a *testVoter, token uint64, heir protocol.Heir)
		want        []string
		reservation string // after
		open        bool   // the token is not closed
	}{
		"nobody waits":         {want: []string{"1 released 2  {}"}},
		"a successor is named": {next: "incb", want: []string{"1 released 2 incb {}"}, reservation: "incb"},
		"an heir":              {next: "incb", heir: protocol.Heir{Incarnation: "incc", Keep: time.Second}, want: []string{"1 released 2 !incc {}"}, reservation: "!incc"},
		"an heir given up":     {next: "!incc", want: []string{"1 released 2  {}"}},
		"the lock had lapsed": {next: "incb", want: []string{"1 released 2 incb {}"}, reservation: "incb", do: func(p *cluster, a *testVoter, token uint64, heir protocol.Heir) {
			p.redis[0].Del(p.keys.Lock)
			a.Releasing(token, heir, []byte("{}")).Try(testLease)
		}},
		"of a process that died, and the lock had lapsed": {next: "incb", reservation: "incb", open: true, do: func(p *cluster, a *testVoter, token uint64, heir protocol.Heir) {
			p.redis[0].Del(p.keys.Lock)
			NewVoterOf(a.nodes, a.cfg, a.seq, token).Releasing(token, heir, []byte("{}")).Try(testLease)
			a.Abandon() // the locks of the other nodes
		}},
		"an attempt is given up": {next: "incb", reservation: "incb", open: true, do: func(_ *cluster, a *testVoter, _ uint64, _ protocol.Heir) { a.Abandon(); a.WaitIdle(time.Minute) }},
	} {
		sub(t, name, 3, func(t *testing.T, p *cluster) {
			p.counters("1")
			received := p.messages(0, p.keys.Events, 1)
			a := p.voter("a")
			token := a.wins(1)
			if tc.next != "" {
				_ = p.redis[0].Set(p.keys.Heir, tc.next)
				p.redis[0].SetTTL(p.keys.Heir, testLease)
			}
			if tc.do == nil {
				tc.do = func(_ *cluster, a *testVoter, token uint64, heir protocol.Heir) {
					if tally := a.Releasing(token, heir, []byte("{}")).Try(testLease); !tally.Majority(protocol.Released) {
						t.Errorf("%+v", tally.Answers)
					}
					synctest.Wait() // it does not wait for all
				}
			}
			tc.do(p, a, token, tc.heir)
			if got := received(); !slices.Equal(got, tc.want) {
				t.Errorf("published %q, want %q", got, tc.want)
			}
			if reservation := p.get(0, p.keys.Heir); reservation != tc.reservation {
				t.Errorf("the reservation is %q, want %q", reservation, tc.reservation)
			}
			if fence := p.get(0, p.keys.Fence); fence != map[bool]string{false: "3", true: "2"}[tc.open] {
				t.Errorf("the counter is %s", fence)
			}
			if p.locks() != 0 {
				t.Error("the lock is still there")
			}
		})
	}
}

// The nodes come to name the same candidate as the first to claim, in whichever order the followers claimed.
func TestNodesNameTheSameFirst(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		p.counters("1")
		p.voter("a").wins(1)
		_ = p.redis[0].Set(p.keys.Heir, "incd") // d came first here
		p.voter("c").loses()
		if tally := p.voter("b").loses(); tally.NamesUsNext() != 3 {
			t.Errorf("%d name it", tally.NamesUsNext())
		}
		if tally := p.voter("c").loses(); tally.NamesUsNext() != 0 || p.get(0, p.keys.Heir) != "incb" {
			t.Errorf("%d name the second; node 0 names %q", tally.NamesUsNext(), p.get(0, p.keys.Heir))
		}
	})
}

// A winner leaves the reservation of another alone, and removes its own.
func TestAReservationIsGivenUpByItsOwner(t *testing.T) {
	for before, want := range map[string]string{"inca": "", "!inca": "", "incb": "incb"} {
		bubble(t, 1, func(t *testing.T, p *cluster) {
			p.counters("1")
			_ = p.redis[0].Set(p.keys.Heir, before)
			p.redis[0].SetTTL(p.keys.Heir, testLease)
			p.voter("a").wins(1)
			if reservation := p.get(0, p.keys.Heir); reservation != want {
				t.Errorf("%q became %q, want %q", before, reservation, want)
			}
		})
	}
}

// A claim that is lost tells a process that is subscribed to another server so, however many others are subscribed here.
// Without the right to count listeners nobody is taken for one.
func TestLostClaimShowsWhoIsNotSubscribed(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		p.counters("1")
		p.voter("a").wins(1)
		p.messages(0, p.keys.Ask, 2)
		b := p.voter("b")
		for _, want := range []int{0, 2} {
			_, tally := b.Claim(t.Context(), 1, nil, "mine")
			if got := tally.Answers[0].Subscribers; got != want {
				t.Errorf("%d subscribers, want %d", got, want)
			}
			p.messages(0, "mine", 1)
		}
		p.refuse(0, "PUBSUB", "NOPERM")
		if got := b.loses().Answers[0]; got.Status != protocol.Held || got.Subscribers != -1 {
			t.Errorf("%+v", got)
		}
	})
}

// Answers may overtake each other: a renewal that is still under way may have been shown the higher of two counters.
func TestReleaseClosesAboveTheHighestCounterShown(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
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

// A release writes a counter. On a node that forgot it must write the marker as well,
// or the node, no longer new, would vote at once.
func TestReleaseDoesNotHideThatANodeForgot(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
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

// The reservation of an heir is bounded in time, whatever wrote it.
func TestReservationForAnHeirLapses(t *testing.T) {
	const keep = 2 * time.Second
	bubble(t, 1, func(t *testing.T, p *cluster) {
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

// A node that releases the lock records the end of the term in the same step, so it is there when the next candidate can be
// elected. What keeps it from that does not keep it from the release.
func TestReleaseRecordsTheEnd(t *testing.T) {
	for name, spoil := range map[string]func(*cluster){
		"":                    func(*cluster) {},
		"no right to XADD":    func(p *cluster) { p.refuse(0, "XADD", "NOPERM") },
		"no right to PEXPIRE": func(p *cluster) { p.refuse(0, "PEXPIRE", "NOPERM") },
		"another's key":       func(p *cluster) { _ = p.redis[0].Set(p.keys.History, "not ours") },
	} {
		sub(t, name, 1, func(t *testing.T, p *cluster) {
			p.counters("1")
			a := p.voter("a")
			token := a.wins(1)
			spoil(p)
			r := a.Releasing(token, protocol.Heir{}, []byte("the end"))
			if tally := r.Try(testLease); tally.Count(protocol.Released) != 1 || p.locks() != 0 {
				t.Errorf("%+v, %d locks", tally.Answers, p.locks())
			}
			entries, _ := p.redis[0].Stream(p.keys.History)
			recorded := len(entries) == 1 && entries[0].Values[1] == "the end"
			if want := name == "" || strings.HasSuffix(name, "PEXPIRE"); recorded != want {
				t.Errorf("history: %v", entries)

			}
		})
	}
}

package quorum

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// messages notes what is published on a channel of a node, by so many subscribers.
func (p *polls) messages(node int, channel string, subscribers int) func() []string {
	p.t.Helper()
	var mu sync.Mutex
	var got []string
	for i := range subscribers {
		ps := p.own[node].Subscribe(p.t.Context(), channel)
		if _, err := ps.Receive(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
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
		do          func(p *polls, a *booth, token uint64, heir protocol.Heir)
		want        []string
		reservation string // after
		open        bool   // the token is not closed
	}{
		"nobody waits":         {want: []string{"1 released 2  {}"}},
		"a successor is named": {next: "incb", want: []string{"1 released 2 incb {}"}, reservation: "incb"},
		"an heir":              {next: "incb", heir: protocol.Heir{Incarnation: "incc", Keep: time.Second}, want: []string{"1 released 2 !incc {}"}, reservation: "!incc"},
		"an heir given up":     {next: "!incc", want: []string{"1 released 2  {}"}},
		"the lock had lapsed": {next: "incb", want: []string{"1 released 2 incb {}"}, reservation: "incb", do: func(p *polls, a *booth, token uint64, heir protocol.Heir) {
			p.redis[0].Del(p.keys.Lock)
			a.Releasing(token, heir, []byte("{}")).Try(testLease)
		}},
		"of a process that died, and the lock had lapsed": {next: "incb", reservation: "incb", open: true, do: func(p *polls, a *booth, token uint64, heir protocol.Heir) {
			p.redis[0].Del(p.keys.Lock)
			NewVoterOf(a.nodes, a.cfg, a.seq, token).Releasing(token, heir, []byte("{}")).Try(testLease)
			a.Abandon() // the locks of the other nodes
		}},
		"an attempt is given up": {next: "incb", reservation: "incb", open: true, do: func(_ *polls, a *booth, _ uint64, _ protocol.Heir) { a.Abandon(); a.WaitIdle(time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			atThePolls(t, 3, func(t *testing.T, p *polls) {
				p.counters("1")
				received := p.messages(0, p.keys.Events, 1)
				a := p.voter("a")
				token := a.wins(1)
				if tc.next != "" {
					_ = p.redis[0].Set(p.keys.Heir, tc.next)
					p.redis[0].SetTTL(p.keys.Heir, testLease)
				}
				if tc.do == nil {
					tc.do = func(_ *polls, a *booth, token uint64, heir protocol.Heir) {
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
		})
	}
}

// The nodes come to name the same candidate as the first to claim, in whichever order the followers claimed.
func TestNodesNameTheSameFirst(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("1")
		p.voter("a").wins(1)
		_ = p.redis[0].Set(p.keys.Heir, "incd") // d came first here
		p.voter("c").loses()
		if tally := p.voter("b").loses(); tally.Named() != 3 {
			t.Errorf("%d name it", tally.Named())
		}
		if tally := p.voter("c").loses(); tally.Named() != 0 || p.get(0, p.keys.Heir) != "incb" {
			t.Errorf("%d name the second; node 0 names %q", tally.Named(), p.get(0, p.keys.Heir))
		}
	})
}

// A winner leaves the reservation of another alone, and removes its own.
func TestAReservationIsGivenUpByItsOwner(t *testing.T) {
	for before, want := range map[string]string{"inca": "", "!inca": "", "incb": "incb"} {
		atThePolls(t, 1, func(t *testing.T, p *polls) {
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

// An heir's reservation is planted with the lock.
func TestAPlantKeepsTheHeirsReservation(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("1")
		a := p.voter("a")
		token := a.wins(1)
		p.redis[0].FlushAll()
		a.renew(testLease, token, protocol.Heir{Incarnation: "incc", Keep: time.Second}, fit)
		synctest.Wait() // it does not wait for all
		if p.get(0, p.keys.Lock) == "" {
			t.Error("no lock was planted")
		}
		if reservation, ttl := p.get(0, p.keys.Heir), p.redis[0].TTL(p.keys.Heir); reservation != "!incc" || ttl != testLease+time.Second {
			t.Errorf("%q for %v", reservation, ttl)
		}
	})
}

// Without the right to count listeners nobody is taken for one.
func TestListenersMayBeUnknown(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		a.wins(1)
		p.refuse(0, "PUBSUB", "NOPERM")
		if got := b.loses().Answers[0]; got.Status != protocol.Held || got.Subscribers != -1 {
			t.Errorf("%+v", got)
		}
	})
}

// A claim that is lost tells a process that is subscribed to another server so, however many others are subscribed here.
func TestLostClaimShowsWhoIsNotSubscribed(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
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
	})
}

// A renewal brings news of a pause, which does not end the term.
func TestRenewalShowsAPause(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a := p.voter("a")
		token := a.wins(1)
		for _, note := range []string{"", "a migration", ""} {
			if note != "" {
				_ = p.redis[0].Set(p.keys.Pause, note)
			} else {
				p.redis[0].Del(p.keys.Pause)
			}
			if got := a.renew(testLease, token, protocol.Heir{}, fit).Answers[0]; got.Status != protocol.Renewed || got.Note != note {
				t.Errorf("%+v, want the note %q", got, note)
			}
		}
	})
}

// A report is published, and then recorded; what is not allowed does not stand in the way of the rest.
func TestAnnounceWithoutRights(t *testing.T) {
	for name, tc := range map[string]struct {
		head, denied   string
		events, stream int
	}{
		"to all":              {head: "elected 7  ", events: 1, stream: 1},
		"published already":   {stream: 1},
		"no right to publish": {head: "elected 7  ", denied: "PUBLISH", stream: 1},
		"no room for history": {head: "elected 7  ", denied: "XADD", events: 1},
	} {
		t.Run(name, func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
				events := p.messages(0, p.keys.Events, 1)
				if tc.denied != "" {
					p.refuse(0, tc.denied, "NOPERM")
				}
				a := p.voter("a")
				a.Announce(Report{Event: []byte("news"), Head: tc.head})
				a.WaitIdle(time.Minute)
				if got := events(); len(got) != tc.events || tc.events == 1 && got[0] != "elected 7  news" {
					t.Errorf("published %q", got)
				}
				entries, _ := p.redis[0].Stream(p.keys.History)
				if len(entries) != tc.stream || tc.stream == 1 && !slices.Equal(entries[0].Values, []string{"event", "news"}) {
					t.Errorf("history: %v", entries)
				}
			})
		})
	}
}

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

// A release tells the front row once, with its token and who goes first; whatever
// ended no term tells nobody and closes no token.
func TestReleaseNotifiesTheFrontRowOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		next        string // before
		heir        protocol.Heir
		do          func(p *polls, a *booth, token uint64, heir protocol.Heir)
		want        []string
		reservation string // after
		open        bool   // the token is not closed
	}{
		"nobody waits":         {want: []string{"released 2 "}},
		"a successor is named": {next: "incb", want: []string{"released 2 incb"}, reservation: "incb"},
		"an heir":              {next: "incb", heir: protocol.Heir{Incarnation: "incc", Keep: time.Second}, want: []string{"released 2 !incc"}, reservation: "!incc"},
		"an heir given up":     {next: "!incc", want: []string{"released 2 "}},
		"the lock had lapsed": {next: "incb", reservation: "incb", do: func(p *polls, a *booth, token uint64, heir protocol.Heir) {
			p.redis[0].Del(p.keys.Lock)
			a.Releasing(token, heir).Try(testLease)
		}},
		"an attempt is given up": {next: "incb", reservation: "incb", open: true, do: func(_ *polls, a *booth, _ uint64, _ protocol.Heir) { a.Abandon(); a.WaitIdle(time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			atThePolls(t, 3, func(t *testing.T, p *polls) {
				p.counters("1")
				wake := p.messages(0, p.keys.Wake, 1)
				a := p.voter("a")
				token := a.wins(1)
				if tc.next != "" {
					_ = p.redis[0].Set(p.keys.Heir, tc.next)
					p.redis[0].SetTTL(p.keys.Heir, testLease)
				}
				if tc.do == nil {
					tc.do = func(_ *polls, a *booth, token uint64, heir protocol.Heir) {
						if tally := a.Releasing(token, heir).Try(testLease); !tally.Majority(protocol.Released) {
							t.Errorf("%+v", tally.Answers)
						}
						synctest.Wait() // it does not wait for all
					}
				}
				tc.do(p, a, token, tc.heir)
				if got := wake(); !slices.Equal(got, tc.want) {
					t.Errorf("told %q, want %q", got, tc.want)
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
		if got := b.loses().Answers[0]; got.Status != protocol.Held || got.Waiters != -1 || got.Subscribers != -1 {
			t.Errorf("%+v", got)
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

// A report reaches the front row first, where there is news for it, then everybody,
// then the history; what is not allowed does not stand in the way of the rest.
func TestAnnounceWithoutRights(t *testing.T) {
	for name, tc := range map[string]struct {
		front, denied        string
		wake, events, stream int
	}{
		"to all":               {front: "front", wake: 1, events: 1, stream: 1},
		"not to the front row": {events: 1, stream: 1},
		"no right to publish":  {front: "front", denied: "PUBLISH", stream: 1},
		"no room for history":  {front: "front", denied: "XADD", wake: 1, events: 1},
	} {
		t.Run(name, func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
				wake, events := p.messages(0, p.keys.Wake, 1), p.messages(0, p.keys.Events, 1)
				if tc.denied != "" {
					p.refuse(0, tc.denied, "NOPERM")
				}
				a := p.voter("a")
				a.Announce(Report{Event: []byte("news"), Front: tc.front})
				a.WaitIdle(time.Minute)
				if got := wake(); len(got) != tc.wake || tc.wake == 1 && got[0] != "front" {
					t.Errorf("the front row was told %q", got)
				}
				if got := events(); len(got) != tc.events || tc.events == 1 && got[0] != "news" {
					t.Errorf("all were told %q", got)
				}
				entries, _ := p.redis[0].Stream(p.keys.History)
				if len(entries) != tc.stream || tc.stream == 1 && !slices.Equal(entries[0].Values, []string{"event", "news"}) {
					t.Errorf("history: %v", entries)
				}
			})
		})
	}
}

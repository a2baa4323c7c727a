package elector_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// next reads an event.
func next(t testing.TB, events <-chan elector.Event, within time.Duration) elector.Event {
	t.Helper()
	ev, open, came := testcluster.Await(events, within)
	switch {
	case !came:
		t.Fatalf("no event within %v", within)
	case !open:
		t.Fatal("the channel was closed")
	}
	return ev
}

// want reads the next event and wants it to be of this kind.
func want(t testing.TB, events <-chan elector.Event, within time.Duration, kind string, candidate string, token uint64) elector.Event {
	t.Helper()
	ev := next(t, events, within)
	if ev.Kind != kind || ev.Candidate != candidate || ev.Token != token || ev.Version != 1 || ev.Time.IsZero() {
		t.Fatalf("event %+v, want %s of %q with token %d", ev, kind, candidate, token)
	}
	return ev
}

func watch(t testing.TB, c *candidate) <-chan elector.Event {
	ctx, cancel := context.WithCancel(context.Background())
	events := observe(ctx, c.Election())
	t.Cleanup(func() {
		cancel()
		for range events { // closed when the observer has ended
		}
	})
	return events
}

func conformObserve(t *testing.T, w *world) {
	bystander := w.make(t, "bystander")
	events := watch(t, bystander)
	want(t, events, w.soon(), elector.EventVacant, "", 0)
	a := w.start(t, "a", func(cfg *elector.Config) { cfg.Advertise = "http://a:80" })
	one := a.Elected(w.first())
	if ev := want(t, events, w.lease, elector.EventElected, "a", one.Token()); ev.Advertise != "http://a:80" || ev.Election != w.election {
		t.Errorf("event %+v", ev)
	}
	b := w.start(t, "b")
	b.Quiet(w.lease / 4)
	late := watch(t, bystander)
	want(t, late, w.soon(), elector.EventElected, "a", one.Token()) // the snapshot
	own := watch(t, b)
	want(t, own, w.soon(), elector.EventElected, "a", one.Token())
	a.Shutdown()
	two := b.Elected(w.soon())
	for name, ch := range map[string]<-chan elector.Event{"from the start": events, "later": late, "the winner's own": own} {
		ev := next(t, ch, w.lease)
		if !w.exact && ev.Kind == elector.EventElected && ev.Token == two.Token() {
			t.Logf("%s: on a loaded machine the word of the release came too late", name)
			continue
		}
		if ev.Kind != elector.EventReleased || ev.Candidate != "a" || ev.Token != one.Token() || ev.Reason != elector.ReasonShutdown {
			t.Errorf("%s: event %+v, want the release by a", name, ev)
		}
		want(t, ch, w.lease, elector.EventElected, "b", two.Token())
	}
	time.Sleep(w.lease / 10) // see TestReleasesAreObservedWithTheirReason
	b.Shutdown()
	want(t, own, w.lease, elector.EventStopping, "b", two.Token())
	for _, ch := range []<-chan elector.Event{events, late, own} {
		want(t, ch, w.lease, elector.EventReleased, "b", two.Token())
	}
}

func conformObserveSlow(t *testing.T, w *world) {
	a := w.make(t, "a", func(cfg *elector.Config) { cfg.Cooldown = -1 })
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	slow := observe(ctx, a.Election())
	terms, enough := 0, make(chan struct{})
	a.Begin(func(ctx context.Context, term *elector.Term) error {
		if terms++; terms < 50 {
			term.Resign()
			return nil
		}
		close(enough)
		<-ctx.Done()
		return nil
	})
	select {
	case <-enough:
	case <-time.After(w.first() + 10*w.lease):
		t.Fatal("an observer that does not read held up the elector")
	}
	var last *elector.Term
	for len(a.Terms) > 0 {
		last = <-a.Terms
	}
	for elected := uint64(0); elected < last.Token(); {
		ev := next(t, slow, w.lease)
		if ev.Kind != elector.EventElected {
			continue
		}
		if ev.Token <= elected {
			t.Fatalf("elected %d after %d", ev.Token, elected)
		}
		elected = ev.Token
	}
	cancel()
	for range slow {
	}
}

func conformLeader(t *testing.T, w *world) {
	a := w.make(t, "a", func(cfg *elector.Config) { cfg.Advertise = "10.0.0.1:80" })
	if l, err := a.Election().Leader(t.Context()); !errors.Is(err, elector.ErrNoLeader) {
		t.Fatalf("leader %+v, %v", l, err)
	}
	began := time.Now().Truncate(time.Millisecond)
	a.Begin(nil)
	term := a.Elected(w.first())
	time.Sleep(w.lease / 2) // the history is written behind the election, the minority's lock by a renewal at the latest
	for _, c := range []*candidate{a, w.make(t, "bystander")} {
		l, err := c.Election().Leader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if l.Candidate != "a" || l.Advertise != "10.0.0.1:80" || l.Token != term.Token() || l.LeaseLeft <= 0 || l.LeaseLeft > w.lease {
			t.Errorf("leader %+v", l)
		}
		if l.Since.Before(began) || l.Since.After(time.Now()) {
			t.Errorf("since %v", l.Since)
		}
	}
	if !w.exact { // a node that did not answer the first claim, on a busy machine, met the next one as a new node
		eventually(t, w.lease, "no node abstains", func() bool {
			st, err := electionOf(a.Q, w.election).Status(t.Context())
			return err == nil && !slices.ContainsFunc(st.Nodes, func(n elector.NodeStatus) bool { return n.Abstains != 0 })
		})
	}
	st, err := electionOf(a.Q, w.election).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.Election != w.election || st.Paused || st.Leader == nil || len(st.Nodes) != w.n {
		t.Fatalf("status %+v", st)
	}
	for _, n := range st.Nodes {
		if !n.Reachable || n.Error != "" || n.Holder != "a" || n.Fence < term.Token() || n.LeaseLeft <= 0 || n.Abstains != 0 || n.Node == "" {
			t.Errorf("node %+v", n)
		}
	}
	if _, err := a.Q.Election("a{b}"); err == nil {
		t.Error("an election that can't exist")
	}
	a.Shutdown()
	if _, err := a.Election().Leader(t.Context()); !errors.Is(err, elector.ErrNoLeader) {
		t.Errorf("after the release: %v", err)
	}
}

func conformCheck(t *testing.T, w *world) {
	a := w.start(t, "a")
	term := a.Elected(w.first())
	b := w.start(t, "b")
	b.Quiet(w.lease)
	sameInRoll := func(want ...bool) { // what a candidate says of itself and what a roll call shows are one thing
		all, err := a.Election().Candidates(t.Context())
		if err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		slices.SortFunc(all, func(a, b elector.CandidateStatus) int { return strings.Compare(a.ID, b.ID) })
		for i, c := range []*candidate{a, b} {
			if err := c.Check(); all[i].Able() != want[i] || (err == nil) != want[i] {
				t.Errorf("%s: able %v, Check: %v, want %v", c.ID(), all[i].Able(), err, want[i])
			}
		}
	}
	sameInRoll(true, true)
	if err := a.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Elected(w.soon())
	sameInRoll(false, true) // a rests
	if term.Valid() {
		t.Error("valid after its end")
	}
	a.Shutdown()
	if a.Check() == nil {
		t.Error("able to take part without Run")
	}
}

func conformKeys(t *testing.T, w *world) {
	ctx := t.Context()
	sub := w.raw[0].Subscribe(ctx, w.key("events"))
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	a := w.start(t, "pod/a", func(cfg *elector.Config) { cfg.Advertise = "10.0.0.1:80" })
	term := a.Elected(w.first())
	eventually(t, w.lease, "the lock is on all nodes", func() bool { return w.locks(t) == w.n })
	line := regexp.MustCompile(fmt.Sprintf(`^pod/a/[A-Za-z0-9]+/[0-9]+ n=%d lease=%d v=1 since=[0-9]+ ids=([A-Z0-9]{6},){%d}[A-Z0-9]{6} addr=10.0.0.1:80 token=%d$`, w.n, w.lease.Milliseconds(), w.n-1, term.Token()))
	for _, r := range w.raw {
		eventually(t, w.lease, "the lock's value is the documented line, with the agreed token", func() bool {
			return line.MatchString(r.Get(ctx, w.key("lock")).Val())
		})
		if d := r.PTTL(ctx, w.key("lock")).Val(); d <= 0 || d > w.lease {
			t.Errorf("the lock lives for %v", d)
		}
		// A node outside of the granting majority may know a higher number.
		eventually(t, w.lease, "fence is the token, or above", func() bool {
			fence, err := r.Get(ctx, w.key("fence")).Uint64()
			return err == nil && fence >= term.Token()
		})
		if d := r.PTTL(ctx, w.key("fence")).Val(); d != -1 {
			t.Errorf("the counter expires in %v", d)
		}
	}
	a.Shutdown()
	message := func(kind string) elector.Event {
		t.Helper()
		m, err := sub.ReceiveTimeout(ctx, w.lease)
		if err != nil {
			t.Fatal(err)
		}
		_, event, _ := strings.Cut(payloadOf(m), "{")
		ev, err := eventIn("{" + event)
		if err != nil || ev.Kind != kind || ev.Candidate != "pod/a" || ev.Token != term.Token() {
			t.Fatalf("message %v: %+v, %v", m, ev, err)
		}
		return ev
	}
	message(elector.EventElected)
	if ev := message(elector.EventReleased); ev.Reason != elector.ReasonShutdown {
		t.Errorf("event %+v", ev)
	}
	for _, r := range w.raw {
		eventually(t, w.lease, "the history has both events", func() bool {
			entries, err := r.XRange(ctx, w.key("history"), "-", "+").Result()
			if err != nil || len(entries) != 2 {
				return false
			}
			for i, kind := range []string{elector.EventElected, elector.EventReleased} {
				s, _ := entries[i].Values["event"].(string)
				if ev, err := eventIn(s); err != nil || ev.Kind != kind || ev.Token != term.Token() {
					t.Fatalf("entry %d: %v", i, entries[i])
				}
			}
			return true
		})
	}
}

func payloadOf(m any) string {
	if msg, ok := m.(*redis.Message); ok {
		return msg.Payload
	}
	return ""
}

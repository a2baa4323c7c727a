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
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// backend is where the conformance suite runs: n nodes of some kind.
type backend struct {
	n        int
	lease    time.Duration
	quorum   func(t testing.TB, name string) *elector.Quorum
	raw      []*redis.Client // as an operator's redis-cli
	election string
	exact    bool // time is virtual: what takes milliseconds takes milliseconds
}

func (w *backend) config(cfg *elector.Config) { cfg.Election, cfg.Lease = w.election, w.lease }

func (w *backend) make(t testing.TB, id string, change ...func(*elector.Config)) *candidate {
	t.Helper()
	return makeCandidate(t, w.quorum(t, id), id, append([]func(*elector.Config){w.config}, change...)...)
}

func (w *backend) start(t testing.TB, id string, change ...func(*elector.Config)) *candidate {
	t.Helper()
	return w.make(t, id, change...).Begin(nil)
}

func (w *backend) key(name string) string { return "mandate:{" + w.election + "}:" + name }

// locks is how many nodes hold the lock.
func (w *backend) locks(t testing.TB) int {
	t.Helper()
	n := 0
	for _, r := range w.raw {
		k, err := r.Exists(t.Context(), w.key("lock")).Result()
		must(t, err)
		n += int(k)
	}
	return n
}

// unlocked wants the lock gone from all nodes: at most one patience after Run.
func (w *backend) unlocked(t testing.TB) {
	t.Helper()
	within := w.lease / 4
	if !w.exact {
		within += 10 * time.Second // a busy machine
	}
	eventually(t, within, "the lock is gone from all nodes", func() bool { return w.locks(t) == 0 })
}

// first is how long a first election may take: nodes that never heard of the
// election don't vote for a lease unless all of them are seen to be new.
func (w *backend) first() time.Duration { return 3 * w.lease }

// soon is far below what waiting for a lease's end takes.
func (w *backend) soon() time.Duration { return w.lease / 2 }

var conformance = []struct {
	name string
	run  func(*testing.T, *backend)
}{
	{"ElectedSecondWaitsResignHandsOver", conformHandOver},
	{"ShutdownReleases", conformShutdown},
	{"WorkErrorEndsRun", conformWorkError},
	{"WorkDoneCampaignsAgain", conformWorkDone},
	{"ResignFromInsideTheWork", conformResignInside},
	{"CampaignAndResign", conformCampaign},
	{"CampaignEndsWithItsContext", conformCampaignContext},
	{"OneAtATime", conformErrRunning},
	{"ObserveFromOutside", conformObserve},
	{"ObserveSkipsForTheSlow", conformObserveSlow},
	{"LeaderAndStatus", conformLeader},
	{"CheckFitsReadiness", conformCheck},
	{"OperatorsReadKeysAndChannels", conformKeys},
	{"TwoElectionsOnOneQuorum", conformTwoElections},
}

func TestConformanceMiniredis(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			for _, tc := range conformance {
				sub(t, tc.name, n, func(t *testing.T, c *cluster) {
					w := &backend{
						n: n, lease: shortLease, election: "orders", exact: true,
						quorum: func(_ testing.TB, name string) *elector.Quorum { return c.Quorum(name) },
					}
					for i := range n {
						r := c.Client("operator", i)
						t.Cleanup(func() { r.Close() })
						w.raw = append(w.raw, r)
					}
					tc.run(t, w)
				})
			}
		})
	}
}

func TestConformanceReal(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			t.Parallel()
			servers := servertest.RedisN(t, n)
			var raw []*redis.Client
			for _, s := range servers {
				raw = append(raw, s.Client(t))
			}
			t.Run("suite", func(t *testing.T) { // awaits the parallel ones
				for _, tc := range conformance {
					t.Run(tc.name, func(t *testing.T) {
						t.Parallel()
						tc.run(t, &backend{
							n: n, lease: 3 * time.Second, election: tc.name, raw: raw,
							quorum: func(t testing.TB, _ string) *elector.Quorum { return realQuorum(t, servers...) },
						})
					})
				}
			})
		})
	}
}

func conformHandOver(t *testing.T, w *backend) {
	a := w.start(t, "a")
	one := a.Elected(w.first())
	if !a.IsLeader() || a.Term() != one || !one.Valid() || one.Err() != nil || one.Token() == 0 {
		t.Fatalf("leader %v, term %v, valid %v, err %v, token %d", a.IsLeader(), a.Term(), one.Valid(), one.Err(), one.Token())
	}
	if left := time.Until(one.Deadline()); left <= 0 || left > w.lease {
		t.Errorf("deadline in %v", left)
	}
	b := w.start(t, "b")
	b.Quiet(2 * w.lease)
	if b.IsLeader() || b.Term() != nil || !one.Valid() {
		t.Fatal("the term was not renewed")
	}
	must(t, a.Resign(t.Context()))
	if a.IsLeader() || a.Term() != nil || one.Valid() {
		t.Error("leads after its resignation")
	}
	wantReason(t, one, 0, elector.ReasonResigned)
	two := b.Elected(w.soon())
	newer(t, two, one)
	if err := a.Resign(t.Context()); err != nil {
		t.Errorf("a second Resign: %v", err)
	}
	b.Shutdown()
	// It rested for a lease, and is back.
	newer(t, a.Elected(2*w.lease), two)
}

func conformShutdown(t *testing.T, w *backend) {
	a := w.start(t, "a")
	term := a.Elected(w.first())
	eventually(t, w.lease, "the lock is on all nodes", func() bool { return w.locks(t) == w.n })
	a.Shutdown()
	wantReason(t, term, 0, elector.ReasonShutdown)
	w.unlocked(t)
	if a.IsLeader() {
		t.Error("leads after Run has returned")
	}
	// Another life of the same Elector.
	a.Done = make(chan struct{})
	a.Begin(nil)
	newer(t, a.Elected(w.soon()), term)
}

func conformWorkError(t *testing.T, w *backend) {
	boom := errors.New("boom")
	a := w.make(t, "a")
	a.Begin(func(context.Context, *elector.Term) error { return boom })
	term := a.Elected(w.first())
	if err := a.Ended(w.soon()); err != boom { //nolint:errorlint // unchanged, as documented
		t.Fatalf("Run returned %v", err)
	}
	ended := wantReason(t, term, 0, elector.ReasonFailed)
	if !errors.Is(ended, boom) {
		t.Errorf("the term ended with %v", ended)
	}
	w.unlocked(t)
}

func conformWorkDone(t *testing.T, w *backend) {
	delay := w.lease / 10
	a := w.make(t, "a")
	ended := make(chan time.Time, 100)
	a.Begin(func(context.Context, *elector.Term) error { ended <- time.Now(); return nil })
	one := a.Elected(w.first())
	at := <-ended
	two := a.Elected(delay + w.soon())
	if gap := time.Since(at); gap < delay {
		t.Errorf("campaigned again after %v, before a tenth of the lease (%v)", gap, delay)
	}
	wantReason(t, one, 0, elector.ReasonFinished)
	newer(t, two, one)
}

func conformResignInside(t *testing.T, w *backend) {
	a := w.make(t, "a")
	took := make(chan time.Duration, 10)
	a.Begin(func(ctx context.Context, term *elector.Term) error {
		began := time.Now()
		if err := a.Resign(ctx); err != nil {
			t.Errorf("Elector.Resign: %v", err)
		}
		term.Resign()
		if err := term.Close(ctx); err == nil {
			t.Error("Close ends a term of Run, whose work has not returned")
		}
		took <- time.Since(began)
		<-ctx.Done()
		return nil
	})
	term := a.Elected(w.first())
	if d := <-took; d > w.lease/4 {
		t.Errorf("Resign took %v", d)
	}
	wantReason(t, term, w.soon(), elector.ReasonResigned)
	w.unlocked(t)
	a.Elected(2 * w.lease)
}

func conformCampaign(t *testing.T, w *backend) {
	a := w.make(t, "a")
	ctx, cancel := context.WithTimeout(t.Context(), w.first())
	defer cancel()
	one, err := a.Campaign(ctx)
	must(t, err)
	defer one.Close(ctx)
	if !one.Valid() || !a.IsLeader() || a.Term() != one { // at once
		t.Fatalf("Campaign returned a term that is over, or unknown: valid %v, leads %v", one.Valid(), a.IsLeader())
	}
	if _, err := a.Campaign(ctx); !strings.Contains(fmt.Sprint(err), "already running") {
		t.Errorf("a second Campaign: %v", err)
	}
	must(t, one.Close(ctx))
	wantReason(t, one, 0, elector.ReasonResigned)
	w.unlocked(t)
	if err := one.Close(ctx); err != nil {
		t.Errorf("Close twice: %v", err)
	}
	two, err := a.Campaign(ctx)
	must(t, err)
	defer two.Close(ctx)
	newer(t, two, one)
	if !a.IsLeader() || a.Term() != two {
		t.Error("Campaign returned before IsLeader and Term knew of the term")
	}
	// Elector.Resign asks only: it doesn't know whether the work has stopped.
	asked := make(chan error, 1)
	go func() { asked <- a.Resign(ctx) }()
	wantReason(t, two, w.soon(), elector.ReasonResigned)
	time.Sleep(w.lease / 2)
	if n := w.locks(t); n <= w.n/2 {
		t.Errorf("%d locks: the lock was given away under the running work", n)
	}
	must(t, two.Close(ctx))
	must(t, <-asked)
	w.unlocked(t)
}

func conformCampaignContext(t *testing.T, w *backend) {
	a := w.make(t, "a")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	term, err := a.Campaign(ctx)
	must(t, err)
	defer term.Close(context.Background())
	b := w.make(t, "b")
	waiting, stop := context.WithTimeout(context.Background(), w.lease/2)
	defer stop()
	if _, err := b.Campaign(waiting); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Campaign whose context ended: %v", err)
	}
	if err := b.Check(); err == nil {
		t.Error("b still takes part")
	}
	cancel() // bounded the wait only
	time.Sleep(w.lease + w.lease/2)
	if n := w.locks(t); n <= w.n/2 || !term.Valid() {
		t.Errorf("%d locks, valid: %v: the term ended with the context of the wait", n, term.Valid())
	}
	must(t, term.Close(t.Context()))
	w.unlocked(t)
	again := campaigned(t, b)
	newer(t, again, term)
	must(t, again.Close(t.Context()))
	w.unlocked(t)
}

func conformErrRunning(t *testing.T, w *backend) {
	a := w.start(t, "a")
	a.Elected(w.first())
	nothing := func(context.Context, *elector.Term) error { return nil }
	if err := a.Run(t.Context(), nothing); !errors.Is(err, elector.ErrRefused) || !strings.Contains(fmt.Sprint(err), "already running") {
		t.Errorf("a second Run: %v", err)
	}
	if _, err := a.Campaign(t.Context()); !errors.Is(err, elector.ErrRefused) {
		t.Errorf("Campaign beside Run: %v", err)
	}
	if !a.IsLeader() {
		t.Error("that cost the leadership")
	}
	a.Shutdown()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx, nothing); err != nil {
		t.Errorf("Run with a context that has ended: %v", err)
	}
	if _, err := a.Campaign(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Campaign with a context that has ended: %v", err)
	}
}

func conformTwoElections(t *testing.T, w *backend) {
	q := w.quorum(t, "shared")
	name := w.election
	a := makeCandidate(t, q, "a", w.config).Begin(nil)
	b := makeCandidate(t, q, "b", w.config, func(cfg *elector.Config) { cfg.Election = name + "-2" }).Begin(nil)
	one, two := a.Elected(w.first()), b.Elected(w.first())
	time.Sleep(2 * w.lease)
	if !one.Valid() || !two.Valid() {
		t.Fatal("two elections disturb each other")
	}
	a.Shutdown()
	if !two.Valid() {
		t.Fatal("the end of one election ended the other")
	}
	third := makeCandidate(t, q, "c", w.config).Begin(nil)
	newer(t, third.Elected(w.soon()), one)
}

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

func watch(t testing.TB, el *elector.Election) <-chan elector.Event {
	ctx, cancel := context.WithCancel(context.Background())
	events := observe(ctx, el)
	t.Cleanup(func() {
		cancel()
		for range events { // closed when the observer has ended
		}
	})
	return events
}

func conformObserve(t *testing.T, w *backend) {
	bystander := w.make(t, "bystander")
	events := watch(t, bystander.Election())
	want(t, events, w.soon(), elector.EventVacant, "", 0)
	a := w.start(t, "a", func(cfg *elector.Config) { cfg.Advertise = "http://a:80" })
	one := a.Elected(w.first())
	if ev := want(t, events, w.lease, elector.EventElected, "a", one.Token()); ev.Advertise != "http://a:80" || ev.Election != w.election {
		t.Errorf("event %+v", ev)
	}
	b := w.start(t, "b")
	b.Quiet(w.lease / 4)
	late := watch(t, bystander.Election())
	want(t, late, w.soon(), elector.EventElected, "a", one.Token()) // the snapshot
	own := watch(t, b.Election())
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

func conformObserveSlow(t *testing.T, w *backend) {
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

func conformLeader(t *testing.T, w *backend) {
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
		must(t, err)
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
	must(t, err)
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

func conformCheck(t *testing.T, w *backend) {
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
	must(t, a.Resign(t.Context()))
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

func conformKeys(t *testing.T, w *backend) {
	ctx := t.Context()
	sub := w.raw[0].Subscribe(ctx, w.key("events"))
	defer sub.Close()
	must(t, second(sub.Receive(ctx)))
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
		got, err := sub.ReceiveTimeout(ctx, w.lease)
		must(t, err)
		m, _ := got.(*redis.Message)
		_, event, _ := strings.Cut(m.Payload, "{")
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

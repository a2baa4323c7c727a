package elector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

func conformHandOver(t *testing.T, w *world) {
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
	if err := a.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.IsLeader() || a.Term() != nil || one.Valid() {
		t.Error("leads after its resignation")
	}
	wantReason(t, one, 0, elector.ReasonResigned)
	two := b.Elected(w.soon())
	if two.Token() <= one.Token() {
		t.Errorf("token %d after %d", two.Token(), one.Token())
	}
	if err := a.Resign(t.Context()); err != nil {
		t.Errorf("a second Resign: %v", err)
	}
	b.Shutdown()
	// It rested for a lease, and is back.
	if three := a.Elected(2 * w.lease); three.Token() <= two.Token() {
		t.Errorf("token %d after %d", three.Token(), two.Token())
	}
}

func conformShutdown(t *testing.T, w *world) {
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
	if again := a.Elected(w.soon()); again.Token() <= term.Token() {
		t.Errorf("token %d after %d", again.Token(), term.Token())
	}
}

func conformTokens(t *testing.T, w *world) {
	last := uint64(0)
	for i, id := range []string{"a", "b", "a", "a", "c"} {
		c := w.start(t, id)
		term := c.Elected(w.first())
		if term.Token() <= last {
			t.Fatalf("term %d has token %d after %d", i, term.Token(), last)
		}
		last = term.Token()
		c.Shutdown()
	}
}

func conformWorkError(t *testing.T, w *world) {
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

func conformWorkDone(t *testing.T, w *world) {
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
	if two.Token() <= one.Token() {
		t.Errorf("token %d after %d", two.Token(), one.Token())
	}
}

func conformResignInside(t *testing.T, w *world) {
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

func conformCampaign(t *testing.T, w *world) {
	a := w.make(t, "a")
	ctx, cancel := context.WithTimeout(t.Context(), w.first())
	defer cancel()
	one, err := a.Campaign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close(ctx)
	if !one.Valid() {
		t.Fatal("Campaign returned a term that is over")
	}
	if _, err := a.Campaign(ctx); !strings.Contains(fmt.Sprint(err), "already running") {
		t.Errorf("a second Campaign: %v", err)
	}
	if err := one.Close(ctx); err != nil {
		t.Fatal(err)
	}
	wantReason(t, one, 0, elector.ReasonResigned)
	w.unlocked(t)
	if err := one.Close(ctx); err != nil {
		t.Errorf("Close twice: %v", err)
	}
	two, err := a.Campaign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close(ctx)
	if two.Token() <= one.Token() {
		t.Errorf("token %d after %d", two.Token(), one.Token())
	}
	eventually(t, w.soon(), "IsLeader", a.IsLeader)
	// Elector.Resign asks only: it doesn't know whether the work has stopped.
	asked := make(chan error, 1)
	go func() { asked <- a.Resign(ctx) }()
	wantReason(t, two, w.soon(), elector.ReasonResigned)
	time.Sleep(w.lease / 2)
	if n := w.locks(t); n <= w.n/2 {
		t.Errorf("%d locks: the lock was given away under the running work", n)
	}
	if err := two.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-asked; err != nil {
		t.Error(err)
	}
	w.unlocked(t)
}

func conformCampaignContext(t *testing.T, w *world) {
	a := w.make(t, "a")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	term, err := a.Campaign(ctx)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := term.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.unlocked(t)
	again, err := b.Campaign(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again.Token() <= term.Token() {
		t.Errorf("token %d after %d", again.Token(), term.Token())
	}
	if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
	w.unlocked(t)
}

func conformErrRunning(t *testing.T, w *world) {
	a := w.start(t, "a")
	a.Elected(w.first())
	nothing := func(context.Context, *elector.Term) error { return nil }
	if err := a.Run(t.Context(), nothing); !strings.Contains(fmt.Sprint(err), "already running") {
		t.Errorf("a second Run: %v", err)
	}
	if _, err := a.Campaign(t.Context()); !strings.Contains(fmt.Sprint(err), "already running") {
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

func conformTwoElections(t *testing.T, w *world) {
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
	if got := third.Elected(w.soon()); got.Token() <= one.Token() {
		t.Errorf("token %d after %d", got.Token(), one.Token())
	}
}

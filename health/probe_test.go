package health

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func pass(context.Context) error { return nil }

func failing(words string) Probe {
	return Func(func(context.Context) error { return errors.New(words) })
}

// hang ignores its context until release is closed, and counts the calls.
type hang struct {
	release chan struct{}
	calls   atomic.Int32
}

func newHang() *hang { return &hang{release: make(chan struct{})} }

func (h *hang) Check(context.Context) error {
	h.calls.Add(1)
	<-h.release
	return nil
}

func wantMessage(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the words are %q, want %q in them", err, part)
		}
	}
}

func TestAllJoinsErrorsInOrderOnOneLine(t *testing.T) {
	sentinel := errors.New("x")
	p := All(
		Named("a", Func(func(context.Context) error { time.Sleep(5 * time.Millisecond); return sentinel })),
		Named("ok", Func(pass)),
		Named("b", failing("y")),
		Named("c", Func(func(context.Context) error { panic("oops") })),
		Named("d", nil),
		nil,
	)
	err := p.Check(t.Context())
	if want := "a: x; b: y; c: panic: oops; d: the probe is nil; the probe is nil"; err == nil || err.Error() != want {
		t.Fatalf("got %q, want %q", err, want)
	}
	if !errors.Is(err, sentinel) {
		t.Error("errors.Is doesn't see through")
	}
	must(t, All(Func(pass), Func(pass)).Check(t.Context()))
	must(t, All().Check(t.Context()))
}

func TestAllNamesTheOneThatHangsAndDoesNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := newHang()
		p := All(Named("db", stuck), Named("disk", failing("full")))
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := p.Check(ctx)
			cancel()
			wantMessage(t, err, "db: no answer", "; disk: full")
			time.Sleep(time.Second)
		}
		if got := stuck.calls.Load(); got != 1 {
			t.Errorf("asked %d times while it hung", got)
		}
		close(stuck.release)
		synctest.Wait()
		wantMessage(t, p.Check(t.Context()), "disk: full")
		if got := stuck.calls.Load(); got != 2 {
			t.Errorf("asked %d times in all, want once more after it returned", got)
		}
	})
}

package health

import (
	"context"
	"errors"
	"runtime"
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
	if err := All(Func(pass), Func(pass)).Check(t.Context()); err != nil {
		t.Error(err)
	}
	if err := All().Check(t.Context()); err != nil {
		t.Error(err)
	}
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

func TestFromCheckHangsWithOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := newHang()
		p := FromCheck(func() error { return stuck.Check(t.Context()) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := p.Check(ctx)
		wantMessage(t, err, "no answer within 1s")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error("not a deadline error")
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("returned after %s, want at the end of ctx", got)
		}
		before := runtime.NumGoroutine()
		time.Sleep(2 * time.Second)
		for range 100 {
			wantMessage(t, p.Check(t.Context()), "no answer for 3s", "the call from 00:00:00Z still hangs")
		}
		if got := runtime.NumGoroutine(); got > before {
			t.Errorf("%d goroutines, before %d", got, before)
		}
		if got := stuck.calls.Load(); got != 1 {
			t.Errorf("%d calls", got)
		}
		close(stuck.release)
		synctest.Wait()
		if err := p.Check(t.Context()); err != nil {
			t.Errorf("after it came back: %v", err)
		}
	})
}

func TestDefiniteIsSeenThroughNamedAndAll(t *testing.T) {
	base := errors.New("stalled")
	definite := Func(func(context.Context) error { return Definite(base) })
	err := All(Named("a", failing("x")), Named("b", definite)).Check(t.Context())
	if !isDefinite(err) || !errors.Is(err, base) {
		t.Errorf("%v: definite %v", err, isDefinite(err))
	}
	if err := All(Named("a", failing("x")), Named("b", failing("y"))).Check(t.Context()); isDefinite(err) {
		t.Errorf("%v is not definite", err)
	}
	if Definite(nil) != nil {
		t.Error("Definite(nil) is an error")
	}
	if got := Definite(base).Error(); got != "stalled" {
		t.Errorf("words changed to %q", got)
	}
}

func TestHeartbeatStallsAtItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHeartbeat(2 * time.Second)
		time.Sleep(time.Hour) // the time before Arm doesn't count
		h.Arm()
		time.Sleep(2*time.Second - 1)
		if err := h.Check(t.Context()); err != nil {
			t.Errorf("just before the bound: %v", err)
		}
		time.Sleep(1 * time.Nanosecond)
		wantMessage(t, h.Check(t.Context()), "no progress for 2s (bound 2s)")
		time.Sleep(1200 * time.Millisecond)
		err := h.Check(t.Context())
		wantMessage(t, err, "no progress for 3.2s (bound 2s)")
		if !isDefinite(err) {
			t.Error("a stall is definite")
		}
		h.Beat()
		if err := h.Check(t.Context()); err != nil {
			t.Errorf("after a beat: %v", err)
		}
	})
}

func TestArmPassesThroughNamedAndAll(t *testing.T) {
	h := NewHeartbeat(time.Minute)
	p := Named("work", All(Func(pass), Named("beat", h), nil))
	arm(p)
	if err := h.Check(t.Context()); err != nil {
		t.Error(err)
	}
	disarm(p)
	wantMessage(t, h.Check(t.Context()), "not armed")
	disarm(Named("plain", Func(pass))) // has nothing to disarm
}

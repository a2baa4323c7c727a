package health

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A probe ignores the end of its context, and its answer comes in the next run: it was
// asked before that run began, and says nothing about it.
func TestAnswerOfAnEarlierRunIsNotFresh(t *testing.T) {
	for name, wrap := range map[string]func(func() error) Probe{
		"plain":     func(f func() error) Probe { return Func(func(context.Context) error { return f() }) },
		"FromCheck": FromCheck,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				answer := make(chan error)
				r := newRunner(t, wrap(func() error {
					if asked.Add(1) == 1 {
						return <-answer
					}
					return errors.New("disk full")
				}), Settings{Interval: time.Second, Timeout: time.Second, Failures: 1})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
				_ = r.Run(ctx) // may say that the probe was left behind
				start(t, r, r.Run)
				time.Sleep(100 * time.Millisecond)
				answer <- nil
				synctest.Wait()
				if st := r.Status(); st.Healthy || asked.Load() != 2 {
					t.Errorf("healthy %v, asked %d times: the answer of the earlier run counts", st.Healthy, asked.Load())
				}
			})
		})
	}
}

// Two runners share a heartbeat: the end of one must not take it from the other.
func TestHeartbeatOfTwoRunners(t *testing.T) {
	h := NewHeartbeat(time.Minute)
	h.Disarm() // never armed
	h.Arm()
	h.Arm()
	h.Disarm()
	if err := h.Check(t.Context()); err != nil {
		t.Errorf("still armed by one: %v", err)
	}
	h.Disarm()
	h.Disarm()
	if err := h.Check(t.Context()); !errors.Is(err, errUnarmed) {
		t.Errorf("armed by none: %v", err)
	}
	h.Arm()
	if err := h.Check(t.Context()); err != nil {
		t.Errorf("armed again: %v", err)
	}
}

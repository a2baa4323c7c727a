package conns

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Until ends as a context with a time-out does: at its time, with its parent, and when it is waited for before or after that.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		a, endA := Until(parent, time.Second)
		b, endB := Until(a, time.Minute)
		defer endA()
		defer endB()
		for _, ctx := range []context.Context{a, b} {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) != time.Second {
				t.Errorf("the deadline is in %v, %v", time.Until(at), ok)
			}
		}
		if a.(*until).waited != nil || b.(*until).waited != nil {
			t.Error("it has a timer although its end is not waited for")
		}
		began := time.Now()
		child, endChild := context.WithTimeout(b, time.Hour) // as go-redis makes them
		defer endChild()
		<-child.Done()
		<-b.Done()
		if took := time.Since(began); took != time.Second || !errors.Is(b.Err(), context.DeadlineExceeded) || !errors.Is(a.Err(), context.DeadlineExceeded) {
			t.Errorf("after %v: %v, %v", took, b.Err(), a.Err())
		}
		if !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("what was made of it: %v", child.Err())
		}
		<-a.Done()
		c, endC := Until(parent, time.Minute)
		defer endC()
		done := c.Done()
		cancel()
		<-done
		if !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("with its parent: %v", c.Err())
		}
		d, endD := Until(t.Context(), time.Minute)
		child, endChild = context.WithCancel(d)
		defer endChild()
		done = d.Done()
		endD()
		<-done // no timer is left
		<-child.Done()
		if !errors.Is(d.Err(), context.Canceled) || !errors.Is(child.Err(), context.Canceled) {
			t.Errorf("ended: %v, its child: %v", d.Err(), child.Err())
		}
		e, endE := Until(t.Context(), time.Minute)
		endE()
		<-e.Done()
	})
}

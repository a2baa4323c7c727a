package conns_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/conns"
)

// What is made of such a context ends with it, before its time, too.
func TestUntilEndsItsChildren(t *testing.T) {
	u, end := conns.Until(context.Background(), time.Hour)
	child, cancel := context.WithTimeout(u, time.Minute)
	defer cancel()
	end()
	select {
	case <-child.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the child has not ended")
	}
	if !errors.Is(child.Err(), context.Canceled) || !errors.Is(u.Err(), context.Canceled) {
		t.Errorf("the child: %v, the context itself: %v", child.Err(), u.Err())
	}
}

func TestUntilEndsByItsTime(t *testing.T) {
	u, end := conns.Until(context.Background(), time.Millisecond)
	defer end()
	child, cancel := context.WithCancel(u)
	defer cancel()
	<-child.Done()
	if !errors.Is(child.Err(), context.DeadlineExceeded) || !errors.Is(u.Err(), context.DeadlineExceeded) {
		t.Errorf("the child: %v, the context itself: %v", child.Err(), u.Err())
	}
}

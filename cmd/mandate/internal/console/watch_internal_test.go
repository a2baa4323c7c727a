package console

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Regression: a list that is never complete, since there are more than 10,000 elections, was read
// every 2 s, however much work that was for Redis.
func TestLargeListsAreReadSeldom(t *testing.T) {
	failed := func(n int) error {
		err := &elector.QuorumError{}
		for range n {
			err.Nodes = append(err.Nodes, &elector.NodeError{Err: context.DeadlineExceeded})
		}
		return err
	}
	for name, c := range map[string]struct {
		err  error
		took time.Duration
		want time.Duration
	}{
		"complete":                    {nil, time.Millisecond, listEvery},
		"complete, and large":         {nil, time.Second, 50 * time.Second},
		"more than are listed":        {failed(3), time.Second, 50 * time.Second},
		"no node was read to its end": {failed(3), 1500 * time.Millisecond, 75 * time.Second},
		"one node hangs":              {failed(1), 1500 * time.Millisecond, listEvery},
		"no majority answers":         {fmt.Errorf("x: %w", elector.ErrUnreachable), 1500 * time.Millisecond, listAgain},
		"something else":              {errors.New("x"), time.Millisecond, listEvery},
	} {
		if got := listPause(c.err, 3, c.took); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

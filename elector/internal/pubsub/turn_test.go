package pubsub

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Requests that are never answered delay the others by milliseconds, however many there are, and
// those that are answered by nothing.
func TestTurnsAreNotKeptWithoutAnAnswer(t *testing.T) {
	onNodes(t, 1, func(t *testing.T, b *Bus, _ []*miniredis.Miniredis) {
		began := time.Now()
		for range 10 * atATime {
			b.Turn(t.Context())()
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("answered requests wait for %v", took)
		}
		for range 10 * atATime {
			b.Turn(t.Context())
		}
		if took := time.Since(began); took != 9*answersWithin {
			t.Errorf("%v for ten times as many as may wait for answers", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.Turn(ctx)()
	})
}

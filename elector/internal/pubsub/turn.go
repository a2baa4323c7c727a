package pubsub

import (
	"context"
	"sync"
	"time"
)

const (
	// atATime bounds the requests that await answers at the same time: a process with candidates
	// in thousands of elections could not answer requests for all of them in time.
	atATime = 256
	// answersWithin is longer than a candidate takes to answer. After this time a request no longer
	// delays others: anyone can subscribe to a channel and never answer.
	answersWithin = 50 * time.Millisecond
)

// turns is a semaphore for requests that await answers.
type turns chan struct{}

func newTurns() turns { return make(turns, atATime) }

// take blocks until a request may be sent, or until ctx ends.
func (t turns) take(ctx context.Context) (done func()) {
	select {
	case t <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	done = sync.OnceFunc(func() { <-t })
	time.AfterFunc(answersWithin, done)
	return done
}

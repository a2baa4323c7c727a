package pubsub

import (
	"context"
	"sync"
	"time"
)

const (
	// atATime bounds the requests that await answers: those of thousands of elections at once
	// would keep a process with as many candidates from answering in time.
	atATime = 256
	// answersWithin is longer than a candidate takes to answer. One that has not by then does not keep
	// others from being queried: anyone can subscribe to channels, and never answer.
	answersWithin = 50 * time.Millisecond
)

// turns are those of requests that await answers.
type turns chan struct{}

func newTurns() turns { return make(turns, atATime) }

// take waits for one, or for the end of ctx.
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

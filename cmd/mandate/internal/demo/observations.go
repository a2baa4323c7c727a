package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// observation is an event that the work of a candidate has observed.
type observation struct {
	kind  observationKind
	who   *candidate
	token uint64
	at    time.Time
}

type observationKind int

const (
	workStarted  observationKind = iota
	workCanceled                 // the context of the work has ended
	workStopped
)

// observations are the events of all candidates. It is safe for concurrent use.
type observations struct {
	mu  sync.Mutex // guards all
	all []observation
}

func (s *observations) add(o observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, o)
}

// first returns the first observation for which is returns true.
func (s *observations) first(is func(observation) bool) (observation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, is)
	if i < 0 {
		return observation{}, false
	}
	return s.all[i], true
}

// stepTimeout bounds each wait for an observation.
const stepTimeout = 8 * time.Second

// await waits for that observation.
func (s *observations) await(ctx context.Context, is func(observation) bool) (observation, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for ; ctx.Err() == nil; pause(ctx, time.Millisecond) {
		if o, ok := s.first(is); ok {
			return o, nil
		}
	}
	return observation{}, errors.New("it did not happen in time")
}

// errBroken marks a failure that a busy machine does not explain. The step is not repeated.
var errBroken = errors.New("a promise was broken")

// succession waits for the end of the old leader's work and the start of the next one's, and
// checks that they don't overlap.
func (c *cluster) succession(ctx context.Context, old observation) (stopped, next observation, err error) {
	stopped, err = c.seen.await(ctx, func(o observation) bool { return o.kind == workStopped && o.token == old.token })
	if err != nil {
		return stopped, next, err
	}
	next, err = c.seen.await(ctx, func(o observation) bool { return o.kind == workStarted && o.token > old.token })
	if err != nil {
		return stopped, next, err
	}
	if next.at.Before(stopped.at) {
		return stopped, next, fmt.Errorf("%w: two worked at once", errBroken)
	}
	c.before, c.leader = old, next
	return stopped, next, nil
}

// catchUp waits for the present leader, which need not be that of the last step. It returns false
// if there is none, or if ctx has ended.
func (c *cluster) catchUp(ctx context.Context) bool {
	_, err := c.seen.await(ctx, func(o observation) bool {
		if t := o.who.elector.Term(); o.kind != workStarted || t == nil || t.Token() != o.token {
			return false
		}
		if o.token != c.leader.token {
			c.before, c.leader = c.leader, o
		}
		return true
	})
	return err == nil
}

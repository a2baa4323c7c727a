package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// observation is something that the work of a candidate has seen.
type observation struct {
	kind  observationKind
	who   *candidate
	token uint64
	at    time.Time
}

type observationKind int

const (
	workStarted  observationKind = iota
	workCanceled                 // its context has ended
	workStopped
)

func (c *cluster) observed(o observation) {
	c.mu.Lock()
	c.observations = append(c.observations, o)
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	if o.kind == workStarted {
		c.report(o.who, fmt.Sprintf("leads with token %d", o.token))
	}
}

// await waits for the first observation of a kind.
func (c *cluster) await(ctx context.Context, is func(observation) bool) (observation, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for {
		c.mu.Lock()
		changed := c.changed
		for _, o := range c.observations {
			if is(o) {
				c.mu.Unlock()
				return o, nil
			}
		}
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return observation{}, errors.New("it did not happen in time")
		}
	}
}

// succession waits for the end of the old leader's work and the start of the next one's, and
// checks that they don't overlap.
func (c *cluster) succession(ctx context.Context, old observation) (stopped, next observation, err error) {
	stopped, err = c.await(ctx, func(o observation) bool { return o.kind == workStopped && o.token == old.token })
	if err != nil {
		return stopped, next, err
	}
	next, err = c.await(ctx, func(o observation) bool { return o.kind == workStarted && o.token > old.token })
	if err != nil {
		return stopped, next, err
	}
	if next.at.Before(stopped.at) {
		return stopped, next, fmt.Errorf("%w: two worked at once", errBroken)
	}
	c.before, c.leader = old, next
	return stopped, next, nil
}

// forget drops the observations of former terms: the story on the page has no end.
func (c *cluster) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.observations[:0]
	for _, o := range c.observations {
		if o.token == c.leader.token {
			kept = append(kept, o)
		}
	}
	c.observations = kept
}

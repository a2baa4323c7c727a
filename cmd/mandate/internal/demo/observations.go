package demo

import (
	"context"
	"errors"
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
	mu      sync.Mutex // guards all and changed
	all     []observation
	changed chan struct{} // closed and replaced at the next observation
}

func newObservations() *observations { return &observations{changed: make(chan struct{})} }

func (s *observations) add(o observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, o)
	close(s.changed)
	s.changed = make(chan struct{})
}

// keep drops all observations that are not wanted.
func (s *observations) keep(wanted func(observation) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(o observation) bool { return !wanted(o) })
}

// stepTimeout bounds each wait for an observation.
const stepTimeout = 8 * time.Second

// await waits for the first observation for which is returns true.
func (s *observations) await(ctx context.Context, is func(observation) bool) (observation, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for {
		s.mu.Lock()
		changed := s.changed
		for _, o := range s.all {
			if is(o) {
				s.mu.Unlock()
				return o, nil
			}
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return observation{}, errors.New("it did not happen in time")
		}
	}
}

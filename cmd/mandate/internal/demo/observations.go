package demo

import (
	"context"
	"errors"
	"slices"
	"sync"
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

// observations are those of all candidates. Safe for concurrent use.
type observations struct {
	mu      sync.Mutex // of both below
	all     []observation
	changed chan struct{} // closed at the next one
}

func newObservations() *observations { return &observations{changed: make(chan struct{})} }

func (s *observations) add(o observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, o)
	close(s.changed)
	s.changed = make(chan struct{})
}

// keep drops all others.
func (s *observations) keep(wanted func(observation) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(o observation) bool { return !wanted(o) })
}

// stepTimeout is that of anything that should happen.
const stepTimeout = 8 * time.Second

// await waits for the first observation of a kind.
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

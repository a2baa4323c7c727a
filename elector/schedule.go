package elector

import (
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// schedule has the renewals of all terms of a process made when they are due: many by one timer, because they are due at
// common moments (quorum.Nodes.Together).
type schedule struct {
	gather func(func()) // has what the tasks send travel together
	clock  lease.Clock  // of this machine

	mu   sync.Mutex // of all below, of the bunches, and of where a task stands
	open []*bunch   // those that have room
}

// bunch is renewals that are due at one moment.
type bunch struct {
	at    time.Time
	due   []*task // nil: it was taken out
	left  int     // of those
	timer *time.Timer
}

// task is what one term has done when that is due.
type task struct {
	fire func(at *lease.Stamp) // must not block; at is when those of its bunch began to be done

	in *bunch // nil: it is not due
	i  int    // where it stands there
}

const (
	// maxBunch is how many renewals one goroutine starts, one after the other: as many as travel in one call.
	maxBunch = 64
	// oneMoment is how far apart they may be due: timers are no finer.
	oneMoment = time.Millisecond
)

// add has it done in that time. It must not be in.
func (s *schedule) add(t *task, in time.Duration) {
	at := time.Now().Add(in)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bunch(at)
	if b == nil {
		b = &bunch{at: at}
		b.timer = time.AfterFunc(in, func() { s.fire(b) })
		s.open = append(s.open, b)
	}
	t.in, t.i = b, len(b.due)
	b.due = append(b.due, t)
	b.left++
	if len(b.due) == maxBunch {
		s.shut(b)
	}
}

// bunch is one with room at that time; nil: there is none. With mu held.
func (s *schedule) bunch(at time.Time) *bunch {
	for _, b := range s.open {
		if apart := b.at.Sub(at); apart <= oneMoment && apart >= -oneMoment {
			return b
		}
	}
	return nil
}

// shut lets none join any more. With mu held.
func (s *schedule) shut(b *bunch) {
	for i, other := range s.open {
		if other == b {
			last := len(s.open) - 1
			s.open[i], s.open[last] = s.open[last], nil
			s.open = s.open[:last]
			return
		}
	}
}

// remove takes out a task that may be in.
func (s *schedule) remove(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := t.in
	if b == nil {
		return
	}
	b.due[t.i], t.in = nil, nil
	if b.left--; b.left == 0 {
		b.timer.Stop()
		s.shut(b)
	}
}

func (s *schedule) fire(b *bunch) {
	s.mu.Lock()
	s.shut(b)
	due := b.due
	b.due = nil
	for _, t := range due {
		if t != nil {
			t.in = nil
		}
	}
	s.mu.Unlock()
	s.gather(func() {
		at := s.clock.Anchor()
		for _, t := range due {
			if t != nil {
				t.fire(at)
			}
		}
	})
}

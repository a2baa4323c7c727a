package elector

import (
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// schedule runs the periodic requests of all candidates of a process: the renewals of leaders, which are aligned to common
// moments (quorum.Nodes.Together), and the claims of followers, which fall due when the leases end that leaders elsewhere have
// renewed at such moments. One timer runs a bunch of up to 64.
type schedule struct {
	gather func(func()) // has what the tasks send travel together
	clock  lease.Clock  // of this machine

	mu   sync.Mutex       // of all below, of the bunches, and of where a task stands
	base time.Time        // of the moments; zero: there was none yet
	open map[int64]*bunch // those that have room, by their moment
}

// bunch is what is due at one moment.
type bunch struct {
	at    time.Time
	n     int64   // the number of its moment
	due   []*task // nil: it was taken out
	left  int     // of those
	timer *time.Timer
}

// task is the periodic request of one candidate.
type task struct {
	fire func(at *lease.Stamp) // must not block; at is when those of its bunch began to be done

	in *bunch // that runs it; nil: it is not scheduled
	i  int    // where it stands there
}

const (
	// maxBunch is how many one goroutine starts, one after the other: as many as travel in one call.
	maxBunch = 64
	// oneMoment is how long a moment is, and how far apart renewals of one bunch may be due: timers are no finer.
	oneMoment = time.Millisecond
)

// add runs t after that time, or up to earlier sooner or later later, to share a bunch. t must not be scheduled already.
func (s *schedule) add(t *task, after, earlier, later time.Duration) {
	at := time.Now().Add(after)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bunch(at, earlier, later)
	if b == nil {
		b = &bunch{at: at, n: s.moment(at)}
		b.timer = time.AfterFunc(after, func() { s.fire(b) })
		s.open[b.n] = b
	}
	t.in, t.i = b, len(b.due)
	b.due = append(b.due, t)
	b.left++
	if len(b.due) == maxBunch {
		s.shut(b)
	}
}

// bunch is one with room at about that time; nil: there is none. The caller holds mu.
func (s *schedule) bunch(at time.Time, earlier, later time.Duration) *bunch {
	for n, last := s.moment(at.Add(-earlier)), s.moment(at.Add(later)); n <= last; n++ {
		if b := s.open[n]; b != nil {
			if apart := b.at.Sub(at); apart <= later && apart >= -earlier {
				return b
			}
		}
	}
	return nil
}

// moment is the number of the moment that a time is in. The caller holds mu.
func (s *schedule) moment(at time.Time) int64 {
	if s.open == nil {
		s.base, s.open = at, map[int64]*bunch{}
	}
	return int64(at.Sub(s.base) / oneMoment)
}

// shut lets none join any more. The caller holds mu.
func (s *schedule) shut(b *bunch) {
	if s.open[b.n] == b {
		delete(s.open, b.n)
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

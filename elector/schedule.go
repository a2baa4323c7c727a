package elector

import (
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// schedule runs the renewals of all leaders on a Quorum, which are aligned to common moments
// (quorum.Nodes.AlignToMoment). One timer runs a bunch of up to 64 tasks.
type schedule struct {
	gather func(func()) // runs a function whose requests share calls (quorum.Nodes.Gather)
	clock  lease.Clock  // of this host

	mu   sync.Mutex       // of all below, of the bunches, and of in and i of the tasks
	base time.Time        // when moment 0 began; zero: nothing was scheduled yet
	open map[int64]*bunch // the bunches that have room, by the number of their moment
}

// bunch is the tasks that one timer runs at one moment.
type bunch struct {
	at    time.Time
	n     int64   // the number of its moment
	due   []*task // nil in place of a task that was removed
	left  int     // how many were not removed
	timer *time.Timer
}

// task is the periodic request of one candidate.
type task struct {
	fire func(at *lease.Stamp) // must not block; at is when its bunch began to run

	in *bunch // the bunch that will run it; nil: it is not scheduled
	i  int    // its index in that bunch
}

const (
	// maxBunch is how many tasks one goroutine runs, one after the other: as many as share a call.
	maxBunch = 64
	// oneMoment is the length of a moment, and how far apart the renewals of one bunch may be due:
	// timers are no finer.
	oneMoment = time.Millisecond
)

// add schedules t to run in after. To share a bunch, t may run sooner by up to earlier, or later by
// up to later. t must not be scheduled already.
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
		s.closeBunch(b)
	}
}

// bunch returns a bunch that has room, at that time or up to earlier before or later after it; nil:
// there is none. The caller holds mu.
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

// moment returns the number of the moment that at is in. The caller holds mu.
func (s *schedule) moment(at time.Time) int64 {
	if s.open == nil {
		s.base, s.open = at, map[int64]*bunch{}
	}
	return int64(at.Sub(s.base) / oneMoment)
}

// closeBunch closes b to further tasks. The caller holds mu.
func (s *schedule) closeBunch(b *bunch) {
	if s.open[b.n] == b {
		delete(s.open, b.n)
	}
}

// remove cancels t if it is scheduled.
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
		s.closeBunch(b)
	}
}

func (s *schedule) fire(b *bunch) {
	s.mu.Lock()
	s.closeBunch(b)
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

package elector

import "sync"

// feedBuffer is how many events an observer may be behind before it is told
// that it missed some.
const feedBuffer = 64

// feed hands events to the observers, in order, and never waits for one.
type feed struct {
	mu   sync.Mutex
	subs map[*subscription]struct{}
}

type subscription struct {
	queue   []Event
	skipped int
	wake    chan struct{}
}

func (f *feed) publish(ev Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.subs {
		if len(s.queue) >= feedBuffer { // the newest are worth more
			s.queue = s.queue[1:]
			s.skipped++
		}
		s.queue = append(s.queue, ev)
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func (f *feed) subscribe() *subscription {
	s := &subscription{wake: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.subs == nil {
		f.subs = map[*subscription]struct{}{}
	}
	f.subs[s] = struct{}{}
	return s
}

func (f *feed) unsubscribe(s *subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subs, s)
}

// take empties the queue of a subscription; so many were skipped before its first event.
func (f *feed) take(s *subscription) (events []Event, skipped int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	events, skipped = s.queue, s.skipped
	s.queue, s.skipped = nil, 0
	return events, skipped
}

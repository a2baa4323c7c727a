package transport

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Post has a request carried as send does, and returns at once: its then gets the outcome, at the latest when the time of the
// request is over and it was not sent, on the goroutine of the call that it travels in. So a process that leads ten
// thousand elections renews them without a goroutine or a timer for each. now is a moment before.
func (s *Sender) Post(script protocol.ElectionScript, limit time.Duration, now time.Time, within time.Duration, r *Request) {
	r.ctx, r.until = context.Background(), now.Add(within)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(queueID{script: script.Script, limit: limit}, script)
	q.waiting = append(q.waiting, r)
	s.watch(q, now, within)
	if s.holds == 0 || q.announces() {
		s.next(q)
	}
}

// Gather has the requests that f posts to these senders travel together: they are sent when it has returned, by its own goroutine where there is
// a call for them, and Gather returns when that has ended. A second goroutine would wait for each piece of memory that f has
// just written: that takes longer than all else. f must not block.
func Gather(senders []*Sender, f func()) {
	for _, s := range senders {
		s.hold()
	}
	var calls []func()
	defer func() {
		for _, s := range senders {
			calls = append(calls, s.letGo()...)
		}
		for i, carry := range calls {
			if i < len(calls)-1 {
				go carry()
			} else {
				carry()
			}
		}
	}()
	f()
}

// hold is before requests are posted that are to travel together: none of their kind is sent until as many have been letGo.
func (s *Sender) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds++; s.holds == 1 {
		s.held = time.Now()
	}
}

// letGo returns the calls for what may be sent now.
func (s *Sender) letGo() (calls []func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds--
	for _, q := range s.queues {
		if q.announces() { // they wait for no others, only for a call to end
			continue
		}
		if call := s.start(q); call != nil {
			calls = append(calls, call)
		}
	}
	return calls
}

// Posts reports whether requests can be posted: to find the server of an election in a Cluster takes I/O.
func (s *Sender) Posts() bool {
	_, cluster := s.rdb.(*redis.ClusterClient)
	return !cluster
}

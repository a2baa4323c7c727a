package transport

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Post sends the request like Send, but returns at once: its Requester's Done gets the outcome. If the
// request is not sent within that time, counted from now, Done gets NotSent. With Post, a process
// that leads ten thousand elections renews them without a goroutine or a timer for each.
func (s *Sender) Post(script protocol.ElectionScript, limit time.Duration, now time.Time, within time.Duration, r *Request) {
	r.ctx, r.until = context.Background(), now.Add(within)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(queueID{script: script.Script, limit: limit}, script)
	q.waiting = append(q.waiting, r)
	s.watch(q, now, within)
	if s.gatherers == 0 || q.announces() {
		s.next(q)
	}
}

// Gather lets the requests that f posts to these senders travel together: they are sent when f has
// returned. f must not block. Gather makes the last of the calls itself and returns when that one
// has ended; each other call has a goroutine. On another goroutine, fetching the memory that f has
// just written would take longer than everything else.
func Gather(senders []*Sender, f func()) {
	for _, s := range senders {
		s.beginGather()
	}
	var calls []func()
	defer func() {
		for _, s := range senders {
			calls = append(calls, s.endGather()...)
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

// beginGather is called before requests are posted that are to travel together. Renewals and claims are not
// sent until endGather has been called as often as beginGather, or the time of gathering is over.
func (s *Sender) beginGather() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gatherers++; s.gatherers == 1 {
		s.gatheringSince = time.Now()
	}
}

// endGather ends what beginGather began, and returns the calls for the requests that can be sent now.
func (s *Sender) endGather() (calls []func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gatherers--
	for _, q := range s.queues {
		if q.announces() { // Post does not hold them; they only wait for a call to end
			continue
		}
		if call := s.start(q); call != nil {
			calls = append(calls, call)
		}
	}
	return calls
}

// CanPost reports whether requests can be posted. On a Cluster they can't: finding the server of an
// election may take I/O.
func (s *Sender) CanPost() bool {
	_, cluster := s.rdb.(*redis.ClusterClient)
	return !cluster
}

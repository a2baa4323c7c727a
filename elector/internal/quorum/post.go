package quorum

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// post has a request carried as send does, and returns at once: its then gets the outcome, at the latest when the time of the
// request is over and it was not sent, on the goroutine of the call that it travels in. So a process that leads ten
// thousand elections renews them without a goroutine or a timer for each.
func (s *sender) post(script electionScript, limit, within time.Duration, r *request) {
	r.ctx, r.until = context.Background(), time.Now().Add(within)
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue(queueID{script: script.Script, limit: limit}, script)
	q.waiting = append(q.waiting, r)
	s.watch(q, within)
	if q.free() {
		s.next(q)
	}
}

// posts reports whether requests can be posted: to find the server of an election in a Cluster takes I/O.
func (s *sender) posts() bool {
	_, cluster := s.rdb.(*redis.ClusterClient)
	return !cluster
}

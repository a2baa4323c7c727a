// Package transport sends the requests of all elections of a process to one Redis node. Requests
// that are due at the same time travel together, in one script call or, on a Cluster, in one
// pipeline. A request that meets no other is sent alone, without delay.
//
// The requests of a batch share nothing but the call. The arguments of each are made when it is
// sent, which includes the check of its election's health, and each has its own answer or error.
//
//	Sender    queues by script and time-out, and the calls under way (queue.go, sender.go, post.go)
//	Request   the request of one election, and its outcome (request.go)
//	batch     one call for up to MaxBatch elections (batch.go)
//	Coalescer the same for plain commands, which operators need for many elections (coalescer.go)
package transport

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

const (
	// MaxParallel is how many calls of releases, or of claims, may be under way at a time: as many as
	// there are connections ready. With a single call, a process that hands over many elections at
	// once would leave all but the first of them without a leader for another round trip.
	MaxParallel = 2
	// maxCalls is how many full calls of a queue may be under way at a time. Thousands of
	// elections must not be sent to a distant node one call after the other.
	maxCalls = 8
	// OverdueDivisor divides a call's time-out: after that fraction of it, waiting requests no longer wait
	// for the call to end. Its connection may be dead, and the next call takes another one.
	OverdueDivisor = 8
	// ConnectLimits is how long a request may wait for its connection, in multiples of its limit. The
	// connection is made in the background; if it is too late for this request, the next one
	// finds it ready.
	ConnectLimits = 2
	// gathering bounds how long a call waits for more requests to join it.
	gathering = time.Millisecond
	// maxIdleYields is how many yields in a row must bring no further request before a call is sent. A
	// handover of many elections passes through several goroutines for each of them.
	maxIdleYields = 4
)

// Sender sends the requests of a process's elections to one node. Requests that arrive while a call
// is under way (for releases and claims: MaxParallel calls) wait, and travel together in the next one,
// as the commits of a database share one write to its log (group commit). A request that meets no
// other is sent at once, on the goroutine of its caller. Each election has at most two requests in
// a Sender: one from its node queue (package quorum), and one report.
type Sender struct {
	nodeLink

	mu             sync.Mutex // guards all below, and the queues
	queues         map[queueID]*scriptQueue
	gatherers      int       // goroutines that are about to post more renewals or claims (Gather)
	gatheringSince time.Time // since when gatherers is above 0
}

// NewSender returns the sender of a node. It does no I/O until a request is sent.
func NewSender(rdb redis.UniversalClient) *Sender {
	return &Sender{nodeLink: nodeLink{rdb: rdb}, queues: map[queueID]*scriptQueue{}}
}

// Send sends the request to the node and returns its outcome. If the request has not been sent when
// its context ends, Send returns then. Once it is sent, Send waits for the outcome.
func (s *Sender) Send(script protocol.ElectionScript, limit time.Duration, r *Request) Outcome {
	id := queueID{script: script.Script, limit: limit}
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		master, err := c.MasterForKey(r.ctx, r.keys[0])
		if err != nil {
			slotMap{c}.learn(r.ctx, err)
			return Outcome{Answer: protocol.Answer{Status: protocol.Unknown, Err: err}}
		}
		id.master = master
	}
	s.mu.Lock()
	q := s.queue(id, script)
	r.done = make(chan struct{})
	if len(q.waiting) == 0 && q.busy() == 0 && !q.waitsForOthers() {
		c := q.begin()
		s.mu.Unlock()
		return s.alone(q, c, r)
	}
	q.waiting = append(q.waiting, r)
	if !s.free(q) {
		s.watch(q, time.Now(), limit)
		s.mu.Unlock()
		return s.wait(q, r)
	}
	c := q.begin()
	s.mu.Unlock()
	all := s.gather(q, c)
	if len(all) == 1 && all[0] == r {
		return s.alone(q, c, r)
	}
	go s.carry(q, c, all)
	return s.wait(q, r)
}

// alone sends a request that has met no other, on the goroutine of its caller.
func (s *Sender) alone(q *scriptQueue, c *call, r *Request) Outcome {
	s.carry(q, c, []*Request{r})
	return r.outcome
}

// free reports whether a request can be sent before a call under way ends. The caller holds mu.
func (s *Sender) free(q *scriptQueue) bool {
	busy := q.busy()
	switch full := len(q.waiting) >= MaxBatch && busy < maxCalls; {
	case busy == 0:
		return true
	case q.announces(): // one call, to leave the node and its connections to claims and releases
		return full && s.atRest()
	default:
		return full || !q.renews() && busy < MaxParallel
	}
}

// atRest reports whether only announcements are waiting. The caller holds mu.
func (s *Sender) atRest() bool {
	for _, q := range s.queues {
		if len(q.waiting) > 0 && !q.announces() {
			return false
		}
	}
	return true
}

// wait waits for the outcome of a request that another goroutine sends.
func (s *Sender) wait(q *scriptQueue, r *Request) Outcome {
	o, ok := r.wait()
	if !ok {
		s.leave(q, r)
	}
	return o
}

// queue returns the queue with that id, and creates it if necessary. The caller holds mu.
func (s *Sender) queue(id queueID, script protocol.ElectionScript) *scriptQueue {
	q := s.queues[id]
	if q == nil {
		via, single := s.rdb.(*redis.Client)
		if !single {
			via = id.master
		}
		q = &scriptQueue{id: id, script: script, via: via.WithTimeout(id.limit)}
		s.queues[id] = q
	}
	return q
}

// leave removes a request whose caller has stopped waiting.
func (s *Sender) leave(q *scriptQueue, r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(q.waiting, r); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		s.tidy(q)
	}
}

// gather takes the requests of the next call out of the queue. Renewals with the same lease are due
// at the same moments (quorum.Nodes.AlignToMoment), and many elections are handed over at once: so gather
// first yields to all goroutines that can run and may add requests. That costs a lone request a
// fraction of a microsecond.
func (s *Sender) gather(q *scriptQueue, c *call) []*Request {
	began, n, same := time.Now(), -1, 0
	if q.renews() {
		same = maxIdleYields - 1
	}
	for same < maxIdleYields && time.Since(began) < gathering {
		s.mu.Lock()
		before := n
		n = len(q.waiting)
		s.mu.Unlock()
		switch {
		case n >= MaxBatch:
			same = maxIdleYields
		case n == before:
			same++
		}
		if same < maxIdleYields {
			runtime.Gosched()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := q.take(c)
	s.next(q)
	return all
}

// carry makes a call for these requests. A single request's call lasts as long as its caller allows.
func (s *Sender) carry(q *scriptQueue, c *call, all []*Request) {
	defer s.end(q, c)
	if len(all) == 0 { // another call took them
		return
	}
	ctx, cancel := all[0].context()
	if len(all) > 1 {
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), (ConnectLimits+1)*q.id.limit)
	}
	defer cancel()
	b := batch{&s.nodeLink, q.script, q.via, q.id.master != nil, all}
	b.carry(ctx)
}

// next starts a call for the waiting requests if one can be sent now. The caller holds mu.
func (s *Sender) next(q *scriptQueue) {
	if call := s.start(q); call != nil {
		go call()
	}
}

// start returns the call for the waiting requests, or nil if they have to wait for a call under way
// or for others to join them. The caller holds mu.
func (s *Sender) start(q *scriptQueue) (call func()) {
	n := len(q.waiting)
	if n == 0 || !s.free(q) || n < MaxBatch && s.gatheringNow() && q.mayWait() {
		return nil
	}
	c := q.begin()
	return func() { s.carry(q, c, s.gather(q, c)) }
}

// gatheringNow reports whether more requests are about to be posted. It holds for a bounded time, since a
// goroutine that is stuck while it posts must not cost others their leases. The caller holds mu.
func (s *Sender) gatheringNow() bool {
	return s.gatherers > 0 && time.Since(s.gatheringSince) < gathering
}

// end removes a call that has ended and starts the next one.
func (s *Sender) end(q *scriptQueue, c *call) {
	s.mu.Lock()
	q.calls = slices.DeleteFunc(q.calls, func(other *call) bool { return other == c })
	s.next(q)
	s.tidy(q)
	s.mu.Unlock()
	for _, r := range c.posted {
		r.requester.CallEnded()
	}
}

// watch sets the queue's alarm, to go off within that time at the latest. The caller holds mu.
func (s *Sender) watch(q *scriptQueue, now time.Time, within time.Duration) {
	in := min(q.id.limit/OverdueDivisor, within)
	at := now.Add(in)
	switch {
	case q.alarm == nil:
		q.alarm, q.rings = time.AfterFunc(in, func() { s.onAlarm(q) }), at
	case at.Before(q.rings): // never later: a series of requests would postpone it for ever
		q.rings = at
		q.alarm.Reset(in)
	}
}

// onAlarm runs when the alarm goes off. It marks calls as overdue, so that waiting requests no longer
// wait for them, and ends the posted requests whose time is over. One timer for the whole queue
// suffices: nearly every request is answered long before.
func (s *Sender) onAlarm(q *scriptQueue) {
	now := time.Now()
	var late []*Request
	next := q.id.limit / OverdueDivisor
	due := func(r *Request) bool {
		switch {
		case r.requester == nil:
			return false
		case !r.late(now):
			next = min(next, r.until.Sub(now))
			return false
		case r.withdraw():
			late = append(late, r)
		}
		return true
	}
	s.mu.Lock()
	q.waiting = slices.DeleteFunc(q.waiting, due)
	for _, c := range q.calls {
		c.overdue = c.overdue || now.Sub(c.since) >= q.id.limit/OverdueDivisor
		c.posted = slices.DeleteFunc(c.posted, due)
	}
	s.next(q)
	if q.alarm != nil { // watch may have reset it meanwhile
		q.alarm.Stop()
		q.alarm = nil
	}
	if s.tidy(q); s.queues[q.id] == q {
		s.watch(q, now, next)
	}
	s.mu.Unlock()
	for _, r := range late {
		r.requester.Done(NotSent())
	}
}

// tidy removes a queue that is not in use. The caller holds mu.
func (s *Sender) tidy(q *scriptQueue) {
	if len(q.waiting) > 0 || len(q.calls) > 0 {
		return
	}
	if q.alarm != nil {
		q.alarm.Stop()
		q.alarm = nil
	}
	if s.queues[q.id] == q {
		delete(s.queues, q.id)
	}
}

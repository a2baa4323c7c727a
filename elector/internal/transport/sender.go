// Package transport carries what the elections of a process request of one Redis node: those that meet travel
// together, in one script call or, on a Cluster, in a pipeline; one that meets no other goes alone, without delay.
//
// Requests share the way and nothing else: each is asked for its arguments, and so for its election's health, when
// it is sent, and each has an answer or an error of its own.
//
//	Sender    queues by script and time-out, and the calls that are under way (sender.go, post.go)
//	Request   what one election requests, and its outcome (request.go)
//	batch     one call for up to MaxBatch elections (batch.go)
//	Joint     the same for plain commands that an operator has made for many elections (joint.go)
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
	// MaxBatch is how many elections one call is for at most: it holds up every other client of the
	// node for as long as it runs, about half a millisecond.
	MaxBatch = 64
	// Abreast is how many calls of releases, or of claims, are under way at a time: as many as there are connections ready for. Were
	// it one, all but the first of the elections that a process hands over together would wait for a round trip without a leader.
	Abreast = 2
	// maxCalls is how many full calls of a queue are under way at a time: to a node that is far
	// away the elections of thousands must not go one call after the other.
	maxCalls = 8
	// Overdue is the part of its time-out after which no caller waits for a call any more: its
	// connection may be dead, and the next call takes another one.
	Overdue = 8
	// Connecting is how many times the limit of a request it may wait for its connection,
	// which is made in the background meanwhile, and ready for the next one if it is late for
	// this.
	Connecting = 2
	// gathering is how long a renewal lets others join it at most.
	gathering = time.Millisecond
	// idle is how many times in a row nothing may join a call until it goes: what hands elections over together passes
	// through several goroutines for each of them.
	idle = 4
)

// Sender carries what the elections of a process request of one node. Requests that come while a call
// is under way (of releases and claims: a few calls) wait, and travel together in the next one, as the commits of a database share a
// write to its log. One that meets no other is sent at once, by its own goroutine. Each election
// has at most two requests here: one from its nodeQueue, and one report.
type Sender struct {
	wire

	mu     sync.Mutex // guards all below, and the queues
	queues map[queueID]*scriptQueue
	holds  int       // how many goroutines are about to post more renewals, or claims
	held   time.Time // since when there are any
}

// NewSender makes the sender of a node, which does no I/O until something is sent.
func NewSender(rdb redis.UniversalClient) *Sender {
	return &Sender{wire: wire{rdb: rdb}, queues: map[queueID]*scriptQueue{}}
}

// queueID distinguishes what can't travel together. A release must not wait behind renewals,
// nor a request with little time behind one with much.
type queueID struct {
	script *redis.Script
	limit  time.Duration // for the answer
	master *redis.Client // of the elections' slots, where the node is a Cluster
}

// scriptQueue is the requests of one kind. It is guarded by the sender's mutex.
type scriptQueue struct {
	id      queueID
	script  protocol.ElectionScript
	waiting []*Request // in the order in which they came
	calls   []*call
	alarm   *time.Timer // looks after what is late; nil: nothing can be
	rings   time.Time   // when it goes off
}

// call is one that is under way, or about to be.
type call struct {
	since   time.Time
	overdue bool       // none waits for it any more
	posted  []*Request // those in it that no goroutine waits for
}

// busy is how many calls are under way that are not overdue.
func (q *scriptQueue) busy() int {
	n := 0
	for _, c := range q.calls {
		if !c.overdue {
			n++
		}
	}
	return n
}

func (q *scriptQueue) renews() bool    { return q.id.script == protocol.RenewScript.Script }
func (q *scriptQueue) announces() bool { return q.id.script == protocol.AnnounceScript.Script }

// mayWait reports whether those that wait are posted with others: nothing that a goroutine waits for, as it claims after a release,
// is put off for that, nor a report.
func (q *scriptQueue) mayWait() bool {
	return !q.announces() && !slices.ContainsFunc(q.waiting, func(r *Request) bool { return r.requester == nil })
}

// waitsForOthers reports whether a call lets others join it before it goes: renewals, and what has met others.
func (q *scriptQueue) waitsForOthers() bool { return q.renews() || len(q.calls) > 0 }

func (q *scriptQueue) begin() *call {
	c := &call{since: time.Now()}
	q.calls = append(q.calls, c)
	return c
}

func (q *scriptQueue) take(c *call) []*Request {
	n := min(len(q.waiting), MaxBatch)
	all := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	c.posted = slices.DeleteFunc(slices.Clone(all), func(r *Request) bool { return r.requester == nil })
	return all
}

// Send has the request carried to the node, and returns with its outcome: at the end of its
// context if it was not sent before that.
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
	if len(q.waiting) == 0 && q.busy() == 0 && !q.waitsForOthers() {
		c := q.begin()
		s.mu.Unlock()
		defer s.end(q, c)
		return s.alone(script, limit, r)
	}
	r.done = make(chan struct{})
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
		defer s.end(q, c)
		return s.alone(script, limit, r)
	}
	go s.carry(q, c, all)
	return s.wait(q, r)
}

// free reports whether a request that comes need not wait for a call to end. The caller holds mu.
func (s *Sender) free(q *scriptQueue) bool {
	busy := q.busy()
	switch full := len(q.waiting) >= MaxBatch && busy < maxCalls; {
	case busy == 0:
		return true
	case q.announces(): // one call, so that claims and releases of thousands find the node and the connections free
		return full && s.atRest()
	default:
		return full || !q.renews() && busy < Abreast
	}
}

// atRest reports whether nothing waits but announcements. The caller holds mu.
func (s *Sender) atRest() bool {
	for _, q := range s.queues {
		if len(q.waiting) > 0 && !q.announces() {
			return false
		}
	}
	return true
}

// wait is for those that another goroutine carries.
func (s *Sender) wait(q *scriptQueue, r *Request) Outcome {
	o, ok := r.wait()
	if !ok {
		s.leave(q, r)
	}
	return o
}

// queue is that for such requests. The caller holds mu.
func (s *Sender) queue(id queueID, script protocol.ElectionScript) *scriptQueue {
	q := s.queues[id]
	if q == nil {
		q = &scriptQueue{id: id, script: script}
		s.queues[id] = q
	}
	return q
}

// leave is of a request whose caller has left.
func (s *Sender) leave(q *scriptQueue, r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(q.waiting, r); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		s.tidy(q)
	}
}

// gather takes the requests that the next call is for. Renewals of one lease length are due at
// the same moments (Nodes.Together), and elections are handed over together: so all goroutines that can run get
// the chance to join. It costs one that is alone a fraction of a microsecond.
func (s *Sender) gather(q *scriptQueue, c *call) []*Request {
	began, n, same := time.Now(), -1, 0
	if q.renews() {
		same = idle - 1
	}
	for same < idle && time.Since(began) < gathering {
		s.mu.Lock()
		before := n
		n = len(q.waiting)
		s.mu.Unlock()
		switch {
		case n >= MaxBatch:
			same = idle
		case n == before:
			same++
		}
		if same < idle {
			runtime.Gosched()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := q.take(c)
	s.next(q)
	return all
}

// carry makes a call. One request alone has all the time that its caller gives it, and no more.
func (s *Sender) carry(q *scriptQueue, c *call, all []*Request) {
	defer s.end(q, c)
	if len(all) == 0 { // another call was full, and took them
		return
	}
	ctx, cancel := all[0].context()
	if len(all) > 1 {
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), (Connecting+1)*q.id.limit)
	}
	defer cancel()
	b := batch{&s.wire, q.script, q.id.limit, q.id.master, all}
	b.carry(ctx)
}

// next starts a call for those that wait, unless they wait for another one. The caller holds mu.
func (s *Sender) next(q *scriptQueue) {
	if call := s.start(q); call != nil {
		go call()
	}
}

// start returns the call for those that wait; nil: they wait for another one, or for others to join them. The caller holds mu.
func (s *Sender) start(q *scriptQueue) (call func()) {
	n := len(q.waiting)
	if n == 0 || !s.free(q) || n < MaxBatch && s.holding() && q.mayWait() {
		return nil
	}
	c := q.begin()
	return func() { s.carry(q, c, s.gather(q, c)) }
}

// holding reports whether more requests are about to come. One that posts them and is stuck must not cost the others their
// leases. The caller holds mu.
func (s *Sender) holding() bool { return s.holds > 0 && time.Since(s.held) < gathering }

// end is that of a call.
func (s *Sender) end(q *scriptQueue, c *call) {
	s.mu.Lock()
	q.calls = slices.DeleteFunc(q.calls, func(other *call) bool { return other == c })
	s.next(q)
	s.tidy(q)
	s.mu.Unlock()
	for _, r := range c.posted {
		r.requester.Carried()
	}
}

// watch has the alarm go off now and then while the queue is in use, and within that time at the latest. The caller holds mu.
func (s *Sender) watch(q *scriptQueue, now time.Time, within time.Duration) {
	in := min(q.id.limit/Overdue, within)
	at := now.Add(in)
	switch {
	case q.alarm == nil:
		q.alarm, q.rings = time.AfterFunc(in, func() { s.look(q) }), at
	case at.Before(q.rings): // never later: short requests one after the other would put off the ends of all
		q.rings = at
		q.alarm.Reset(in)
	}
}

// look sees to it that those who wait do not wait for a call that is overdue, and that what nobody waits for has an
// outcome when its time is over. One timer does it for all: nearly always each is answered long before.
func (s *Sender) look(q *scriptQueue) {
	now := time.Now()
	var late []*Request
	next := q.id.limit / Overdue
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
		c.overdue = c.overdue || now.Sub(c.since) >= q.id.limit/Overdue
		c.posted = slices.DeleteFunc(c.posted, due)
	}
	s.next(q)
	if q.alarm != nil { // it may have been set again meanwhile
		q.alarm.Stop()
		q.alarm = nil
	}
	if s.tidy(q); s.queues[q.id] == q {
		s.watch(q, now, next)
	}
	s.mu.Unlock()
	for _, r := range late {
		r.requester.Then(NotSent())
	}
}

// tidy forgets a queue that is not in use. The caller holds mu.
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

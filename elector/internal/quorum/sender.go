package quorum

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxBatch is how many elections one call is for at most: it holds up every other client of the
	// node for as long as it runs, about half a millisecond.
	maxBatch = 64
	// maxFlights is how many full calls of a lane are under way at a time: to a node that is far
	// away the elections of thousands must not go one call after the other.
	maxFlights = 8
	// overdue is the part of its time-out after which no caller waits for a call any more: its
	// connection may be dead, and the next call takes another one.
	overdue = 8
	// gathering is how long a renewal lets others join it at most.
	gathering = time.Millisecond
)

// sender carries what the elections of a process request of one node. Requests that come while a call
// is under way wait, and travel together in the next one, as the commits of a database share a
// write to its log. One that meets no other is sent at once, by its own goroutine. The nodeQueue of each election
// stands before it: an election has one request at a time here.
type sender struct {
	wire

	mu    sync.Mutex // guards all below, and the lanes
	lanes map[laneID]*lane
}

// laneID distinguishes what can't travel together. A release must not wait behind renewals,
// nor a request with little time behind one with much.
type laneID struct {
	script *redis.Script
	limit  time.Duration // for the answer
	master *redis.Client // of the elections' slots, where the node is a Cluster
}

// lane is the requests of one kind. It is guarded by the sender's mutex.
type lane struct {
	id      laneID
	script  electionScript
	waiting []*request // in the order in which they came
	flights []*flight
	alarm   *time.Timer // looks after flights that are overdue, while requests wait
}

// flight is a call that is under way, or about to be.
type flight struct{ since time.Time }

// free reports whether a request that comes need not wait for a flight to end.
func (l *lane) free() bool {
	return len(l.flights) == 0 || len(l.waiting) >= maxBatch && len(l.flights) < maxFlights
}

// gathers reports whether a call lets others join it before it goes.
func (l *lane) gathers() bool { return l.id.script == renewScript.Script }

func (l *lane) depart() *flight {
	f := &flight{time.Now()}
	l.flights = append(l.flights, f)
	return f
}

func (l *lane) take() []*request {
	n := min(len(l.waiting), maxBatch)
	all := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	return all
}

// send has the request carried to the node, and returns with its outcome: at the end of its
// context if it was not sent before that.
func (s *sender) send(script electionScript, limit time.Duration, r *request) outcome {
	id := laneID{script: script.Script, limit: limit}
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		master, err := c.MasterForKey(r.ctx, r.keys[0])
		if err != nil {
			slotMap{c}.learn(r.ctx, err)
			return outcome{answer: Answer{Status: Unknown, Err: err}}
		}
		id.master = master
	}
	s.mu.Lock()
	l := s.lanes[id]
	if l == nil {
		l = &lane{id: id, script: script}
		s.lanes[id] = l
	}
	if len(l.waiting) == 0 && len(l.flights) == 0 && !l.gathers() {
		f := l.depart()
		s.mu.Unlock()
		defer s.land(l, f)
		return s.alone(script, limit, r)
	}
	r.done = make(chan struct{})
	l.waiting = append(l.waiting, r)
	if !l.free() {
		s.watch(l)
		s.mu.Unlock()
		return s.wait(l, r)
	}
	f := l.depart()
	s.mu.Unlock()
	all := s.board(l)
	if len(all) == 1 && all[0] == r {
		defer s.land(l, f)
		return s.alone(script, limit, r)
	}
	go s.fly(l, f, all)
	return s.wait(l, r)
}

// wait is for those that another goroutine carries.
func (s *sender) wait(l *lane, r *request) outcome {
	o, ok := r.wait()
	if !ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		if i := slices.Index(l.waiting, r); i >= 0 {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			s.tidy(l)
		}
	}
	return o
}

// board takes the requests that the next call is for. Renewals of one lease length are due at
// the same moments (Nodes.Together), and there is no hurry: so all goroutines that can run get
// the chance to join. It costs one that is alone a fraction of a microsecond.
func (s *sender) board(l *lane) []*request {
	began, n := time.Now(), -1
	for l.gathers() && time.Since(began) < gathering {
		runtime.Gosched()
		s.mu.Lock()
		before := n
		n = len(l.waiting)
		s.mu.Unlock()
		if n == before || n >= maxBatch {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := l.take()
	s.next(l)
	return all
}

// fly is a flight. A request that travels alone has all the time that its caller gives it, and no more.
func (s *sender) fly(l *lane, f *flight, all []*request) {
	defer s.land(l, f)
	if len(all) == 0 { // another flight was full, and took them
		return
	}
	ctx, cancel := all[0].ctx, context.CancelFunc(func() {})
	if len(all) > 1 {
		ctx, cancel = context.WithTimeout(context.Background(), (connecting+1)*l.id.limit)
	}
	defer cancel()
	b := batch{&s.wire, l.script, l.id.limit, l.id.master, all}
	b.carry(ctx)
}

// next starts a flight for those who wait, unless they wait for another one. With mu held.
func (s *sender) next(l *lane) {
	if len(l.waiting) > 0 && l.free() {
		f := l.depart()
		go func() { s.fly(l, f, s.board(l)) }()
	}
}

// land ends a flight.
func (s *sender) land(l *lane, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.flights = slices.DeleteFunc(l.flights, func(other *flight) bool { return other == f })
	s.next(l)
	s.tidy(l)
}

// watch sees to it that those who wait do not wait for a call that is overdue. With mu held.
func (s *sender) watch(l *lane) {
	if l.alarm != nil {
		return
	}
	late := l.id.limit / overdue
	l.alarm = time.AfterFunc(late, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		l.alarm = nil
		l.flights = slices.DeleteFunc(l.flights, func(f *flight) bool { return time.Since(f.since) >= late })
		s.next(l)
		if s.tidy(l); len(l.waiting) > 0 {
			s.watch(l)
		}
	})
}

// tidy forgets a lane that is not in use. With mu held.
func (s *sender) tidy(l *lane) {
	if len(l.waiting) > 0 {
		return
	}
	if l.alarm != nil {
		l.alarm.Stop()
		l.alarm = nil
	}
	if len(l.flights) == 0 && s.lanes[l.id] == l {
		delete(s.lanes, l.id)
	}
}

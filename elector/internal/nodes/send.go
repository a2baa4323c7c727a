package nodes

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Request is one election's request to one node, and what became of it. It shares nothing but the call
// with the requests that travel with it.
type Request struct {
	protocol.Request

	Script protocol.ElectionScript
	Limit  time.Duration // for the answer, from when the request is sent
	Node   int
	Asked  time.Time // when it was made
	Of     any       // by which the sender knows it
	// Wanted is called once, when the call leaves, on a goroutine that serves other elections too.
	Wanted func() bool
	// Until is the term's deadline, after which no call leaves with it, and no answer counts; zero: none. A
	// call that has to wait for a connection is sent as long as any election in it has time left.
	Until time.Time
	// Ended gets the request when the fields below are set. It has room for it.
	Ended chan<- *Request

	Sent   time.Time // zero: it was not sent, since it was not wanted any more
	Took   time.Duration
	Answer protocol.Answer
}

// ErrUnwanted is the error of a request that was no longer wanted when its call left.
var ErrUnwanted = errors.New("not sent")

// answered is when a request was sent, and answered.
type answered struct{ sent, at time.Time }

// Lost reports whether a request that left at that time, or waits (nil), may be lost with its connection: the node has
// answered none for so long, or one that was sent later.
func (n *Node) Lost(left *time.Time, silent time.Duration) bool {
	a := n.answered.Load()
	return a == nil || time.Since(a.at) >= silent || left != nil && a.sent.After(*left)
}

// end answers a request. The call may have lasted longer than this request could wait: others travel in it.
func (n *Node) end(r *Request, a protocol.Answer) {
	if a.Err == nil && !r.Until.IsZero() && !time.Now().Before(r.Until) {
		a = protocol.Answer{Status: protocol.Unknown, Err: context.DeadlineExceeded, Subscribers: -1}
	}
	if a.Status != protocol.Unknown {
		n.answered.Store(&answered{r.Sent, time.Now()})
	}
	r.Answer = a
	if !r.Sent.IsZero() {
		r.Took = time.Since(r.Sent)
	}
	r.Ended <- r
}

// queueOf identifies the requests that can travel together. A release must not wait behind renewals,
// nor a request with a short time-out behind one with a long one.
type queueOf struct {
	script *redis.Script
	limit  time.Duration
	master *redis.Client // of the elections' slots, where the node is a Cluster
}

// Send sends requests of an election, which travel together if they may. It does not block; the outcomes come on r.Ended. There is no
// order among the requests of an election: scripts and callers allow for that.
func (n *Node) Send(all ...*Request) {
	cluster, ok := n.rdb.(*redis.ClusterClient)
	if !ok {
		n.queue(all[0], nil).add(all...)
		return
	}
	for _, r := range all {
		go n.sendToMaster(cluster, r) // finding the master may take I/O
	}
}

func (n *Node) sendToMaster(cluster *redis.ClusterClient, r *Request) {
	ctx, cancel := context.WithTimeout(context.Background(), r.Limit)
	defer cancel()
	master, err := cluster.MasterForKey(ctx, r.History)
	if err != nil {
		slotMap{cluster}.learn(ctx, err)
		r.Sent = time.Now()
		n.end(r, protocol.Answer{Status: protocol.Unknown, Err: err})
		return
	}
	n.queue(r, master).add(r)
}

// maxQueues bounds the queues that are kept: a process uses few different leases, but a Cluster may
// have replaced its masters many times.
const maxQueues = 100

func (n *Node) queue(r *Request, master *redis.Client) *queue[*Request] {
	id := queueOf{script: r.Script.Script, limit: r.Limit, master: master}
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.queues[id]
	if q == nil {
		if len(n.queues) >= maxQueues {
			maps.DeleteFunc(n.queues, func(_ queueOf, q *queue[*Request]) bool { return q.idle() })
		}
		via := master
		if single, ok := n.rdb.(*redis.Client); ok {
			via = single
		}
		s := &service{node: n, script: r.Script, limit: r.Limit, via: via.WithTimeout(r.Limit)}
		q = &queue[*Request]{carry: s.carry, overdue: r.Limit / 4}
		n.queues[id] = q
	}
	return q
}

// ConnectLimits is how long a call may take with making its connection, in multiples of its time-out.
const ConnectLimits = 3

// service makes the calls of one queue.
type service struct {
	node   *Node
	script protocol.ElectionScript
	limit  time.Duration
	via    *redis.Client // with the limit as its time-out
}

// carry makes one call for several elections, and answers each.
func (s *service) carry(all []*Request) {
	s.node.open.ask(s.limit / 8) // half of what makes the call overdue
	now := time.Now()
	all = slices.DeleteFunc(all, func(r *Request) bool {
		if r.Wanted == nil || r.Wanted() {
			r.Sent = now
			return false
		}
		s.node.end(r, protocol.Answer{Status: protocol.Unknown, Err: ErrUnwanted, Subscribers: -1})
		return true
	})
	if len(all) == 0 {
		return
	}
	// The latest deadline: one election that has little time left must not cut the call for the others.
	until := slices.MaxFunc(all, func(a, b *Request) int { return a.Until.Compare(b.Until) }).Until
	if limit := now.Add(ConnectLimits * s.limit); until.IsZero() || until.After(limit) {
		until = limit
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	_, cluster := s.node.rdb.(*redis.ClusterClient)
	if cluster || len(all) > 1 && s.node.apart.Load() {
		s.pipeline(ctx, all)
		return
	}
	v, err := s.together(ctx, s.via, all)
	switch {
	case len(all) > 1 && redis.HasErrorPrefix(err, "CROSSSLOT"):
		s.node.apart.Store(true)
		s.pipeline(ctx, all)
	case len(all) > 1 && rediserr.Denied(err): // for the keys of some; the call has done nothing yet
		s.pipeline(ctx, all)
	default:
		for i, r := range all {
			s.node.end(r, protocol.ParseReply(v, err, i, len(all)))
		}
	}
}

// together sends all requests in one call of the script, by its source if the server does not know it.
func (s *service) together(ctx context.Context, via redis.UniversalClient, all []*Request) (any, error) {
	requests := make([]*protocol.Request, len(all))
	for i, r := range all {
		requests[i] = &r.Request
	}
	v, err := via.Do(ctx, s.script.Command("evalsha", s.script.Hash(), requests...)...).Result()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		v, err = via.Do(ctx, s.script.Command("eval", s.script.Source, requests...)...).Result()
	}
	return v, err
}

// pipeline makes one call per request, all in one round trip. A call that the server could not run is
// repeated on its own: go-redis then sends the script's source, or follows a moved slot.
func (s *service) pipeline(ctx context.Context, all []*Request) {
	p := s.via.Pipeline()
	calls := make([]*redis.Cmd, len(all))
	for i, r := range all {
		calls[i] = p.Do(ctx, s.script.Command("evalsha", s.script.Hash(), &r.Request)...)
	}
	_, failed := p.Exec(ctx)
	var unknown []*Request // whose script the server does not know
	for i, r := range all {
		v, err := calls[i].Result()
		switch {
		case err == nil && v == nil: // there was no connection
			err = failed
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			unknown = append(unknown, r)
			continue
		case redis.HasErrorPrefix(err, "MOVED"), redis.HasErrorPrefix(err, "ASK"):
			v, err = s.together(ctx, s.node.rdb, all[i:i+1])
		}
		s.endApart(ctx, r, v, err)
	}
	if len(unknown) > 0 {
		v, err := s.together(ctx, s.via, unknown[:1])
		s.endApart(ctx, unknown[0], v, err)
	}
	if len(unknown) > 1 {
		s.pipeline(ctx, unknown[1:])
	}
}

// endApart answers a request that had a call of its own.
func (s *service) endApart(ctx context.Context, r *Request, v any, err error) {
	if c, ok := s.node.rdb.(*redis.ClusterClient); ok {
		slotMap{c}.learn(ctx, err)
	}
	s.node.end(r, protocol.ParseReply(v, err, 0, 1))
}

// MaxBatch is the maximum number of elections in one call. While such a call runs, a millisecond or
// two, every other client of the node waits.
const MaxBatch = 256

// MaxCalls is how many calls of a queue may be under way: one, and another when the first is overdue.
const MaxCalls = 2

// queue sends requests of many elections to a server, as the commits of a database share one write to
// its log (group commit). A request that meets no other is sent at once. Those that arrive while a call
// is under way travel together in the next one. A call that is overdue keeps the others waiting no
// longer: its connection may be dead, and the next call takes another one.
type queue[R any] struct {
	carry   func([]R)     // makes one call, and answers each of its requests
	overdue time.Duration // how long a call may keep others waiting

	mu      sync.Mutex   // guards all below
	waiting []R          // in the order of their arrival
	calls   []*time.Time // under way: when each began
	most    int          // requests in a call, if the server is too slow for MaxBatch; 0: it is not
	late    *time.Timer  // runs start when a call is overdue; nil: it is not set
}

// add sends requests. It does not block.
func (q *queue[R]) add(all ...R) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, all...)
	q.start()
}

// start makes a call for what waits, unless that has to wait. The caller holds mu.
func (q *queue[R]) start() {
	if len(q.waiting) == 0 || len(q.calls) >= MaxCalls {
		return
	}
	for _, began := range q.calls {
		if left := q.overdue - time.Since(*began); left > 0 {
			q.startIn(left)
			return
		}
	}
	call := new(time.Time)
	q.calls = append(q.calls, call)
	go q.run(q.take(call), call)
}

// idle reports whether nothing waits, and no call is under way.
func (q *queue[R]) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0 && len(q.calls) == 0
}

// startIn makes start run again when the call under way is overdue. The caller holds mu.
func (q *queue[R]) startIn(d time.Duration) {
	if q.late != nil {
		return
	}
	q.late = time.AfterFunc(d, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.late = nil
		q.start()
	})
}

// take returns the requests that a call is to carry now. The caller holds mu.
func (q *queue[R]) take(call *time.Time) []R {
	n := min(len(q.waiting), cmp.Or(q.most, MaxBatch))
	all := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	*call = time.Now()
	return all
}

// run makes a call, and then the next one if others wait.
func (q *queue[R]) run(all []R, call *time.Time) {
	for len(all) > 0 {
		n := len(all)
		q.carry(all)
		q.mu.Lock()
		switch took := time.Since(*call); {
		case took >= 2*q.overdue: // half of what makes a call vain, and that of the next one with as many behind it
			q.most = max(MaxBatch/8, n/2)
		case took < q.overdue && n == q.most:
			q.most = min(2*n, MaxBatch)
		}
		if all = q.take(call); len(all) == 0 {
			q.calls = slices.DeleteFunc(q.calls, func(other *time.Time) bool { return other == call })
		}
		q.mu.Unlock()
	}
}

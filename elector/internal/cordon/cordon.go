// Package cordon follows which candidates operators have cordoned. It reads each node when
// the first candidate of a process joins, and again whenever a message, or a new connection,
// suggests that something has changed. One read serves all candidates of a process under one
// prefix. A message is a hint: the cordons are always read from the nodes.
package cordon

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// Timing of the reads.
const (
	readTimeout = 1500 * time.Millisecond
	// minBetween is the minimum time between two reads of a node, whatever forged messages arrive.
	minBetween = 50 * time.Millisecond
	// settled is the time from a new subscription to the next read: the first connections after an
	// outage are left to renewals.
	settled = time.Second
	// Without a message, a node is read again after these times, because a candidate may lack the
	// right to subscribe.
	everySubscribed   = 10 * time.Minute
	everyUnsubscribed = 10 * time.Second
	everyFailed       = 5 * time.Second
)

// Watcher follows the cordons on a set of nodes. Safe for concurrent use.
type Watcher struct {
	nodes *quorum.Nodes
	bus   *pubsub.Bus

	mu      sync.Mutex
	watches map[string]*watch // by prefix
}

// New does no I/O: the nodes are read while there is a Subject.
func New(nodes *quorum.Nodes, bus *pubsub.Bus) *Watcher {
	return &Watcher{nodes: nodes, bus: bus, watches: map[string]*watch{}}
}

// Subject is a candidate, or a member of a group, that may be cordoned: by its id, or by the
// name of its host.
type Subject struct {
	id, host string
	changed  func()
	current  atomic.Pointer[protocol.Cordon]
	watch    *watch
}

// Join follows the cordons for one candidate, until Leave. changed is called after each
// change of what Cordon returns, and must not block. The log receives the error with which a node
// refuses to be read.
func (w *Watcher) Join(prefix, id, host string, log *slog.Logger, changed func()) *Subject {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.watches[prefix]
	if at == nil {
		at = newWatch(w, prefix, log)
		w.watches[prefix] = at
	}
	s := &Subject{id: id, host: host, changed: changed, watch: at}
	at.add(s)
	return s
}

// Leave ends what Join has begun.
func (s *Subject) Leave() {
	w := s.watch.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.watch.remove(s) == 0 && w.watches[s.watch.prefix] == s.watch {
		delete(w.watches, s.watch.prefix)
		s.watch.end()
	}
}

// Cordon returns the cordon in force for this subject; nil: none, as far as is known. It does no I/O.
func (s *Subject) Cordon() *protocol.Cordon { return s.current.Load() }

// Await blocks until a majority of the nodes was read since each was last out of reach, or until
// all were tried, but at most for limit or until ctx ends. It keeps a candidate that was cut off, or
// has just started, from leading before it knows that it is cordoned.
func (s *Subject) Await(ctx context.Context, limit time.Duration) {
	known, changed := s.watch.known()
	if known {
		return
	}
	for _, wake := range s.watch.wake {
		signal(wake)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for !known {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-changed:
		}
		known, changed = s.watch.known()
	}
}

// watch follows the cordons of one prefix.
type watch struct {
	w      *Watcher
	prefix string
	log    *slog.Logger
	wake   []chan struct{} // by node: signaled to read it now
	joined []chan struct{} // by node: signaled when it has confirmed the subscription
	end    func()

	mu       sync.Mutex // of all below
	subjects map[*Subject]struct{}
	nodes    states
	changed  chan struct{} // closed, and replaced, when a node has become known or was tried
}

func newWatch(w *Watcher, prefix string, log *slog.Logger) *watch {
	n := w.nodes.Len()
	a := &watch{w: w, prefix: prefix, log: log, subjects: map[*Subject]struct{}{}, nodes: make(states, n), changed: make(chan struct{})}
	for range n {
		a.wake, a.joined = append(a.wake, make(chan struct{}, 1)), append(a.joined, make(chan struct{}, 1))
	}
	ctx, cancel := context.WithCancel(context.Background())
	unsubscribe := w.bus.Subscribe(protocol.CordonsKey(prefix), a.receive)
	a.end = func() {
		cancel()
		unsubscribe()
	}
	for node := range n {
		go a.follow(ctx, node)
	}
	return a
}

func (a *watch) add(s *Subject) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.subjects[s] = struct{}{}
	s.current.Store(s.inForce(a.nodes.cordons()))
}

func (a *watch) remove(s *Subject) (left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.subjects, s)
	return len(a.subjects)
}

// receive runs on the subscription's goroutine. A message only causes a read; its content is
// ignored.
func (a *watch) receive(s pubsub.Signal) {
	if s.Kind == pubsub.Message {
		signal(a.wake[s.Node])
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	st := &a.nodes[s.Node]
	switch {
	case s.Kind == pubsub.Subscribed:
		st.subscribed = true
		signal(a.joined[s.Node])
	case !rediserr.Permanent(s.Err):
		st.known, st.tried, st.subscribed = false, false, false
		st.losses++
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// follow reads one node repeatedly, until ctx ends.
func (a *watch) follow(ctx context.Context, node int) {
	for {
		losses := a.losses(node)
		all, err := registry.CordonsOn(ctx, a.w.nodes, node, a.prefix, readTimeout)
		if ctx.Err() != nil {
			return
		}
		if !a.wait(ctx, node, a.note(node, losses, all, err)) {
			return
		}
	}
}

// wait blocks until the next read of a node is due. It returns false if ctx ends first.
func (a *watch) wait(ctx context.Context, node int, again time.Duration) bool {
	timer, pause := time.NewTimer(again), time.NewTimer(minBetween)
	defer timer.Stop()
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-a.joined[node]:
			timer.Reset(settled)
		case <-a.wake[node]:
			select {
			case <-ctx.Done():
				return false
			case <-pause.C:
				return true
			}
		}
	}
}

func (a *watch) losses(node int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nodes[node].losses
}

// note records what a node has answered, and returns after what time to read the node again.
func (a *watch) note(node, losses int, all map[string]protocol.Cordon, err error) (again time.Duration) {
	// A refusal is an answer: a candidate without the right to read cordons campaigns as if there were none.
	refused := rediserr.Permanent(err)
	a.mu.Lock()
	st := &a.nodes[node]
	if refused && !st.logged { // deferred until mu is free: all claims of the process wait for mu, and must not wait for a log that hangs
		defer a.log.Warn("cannot read which candidates are cordoned", "error", err)
	}
	defer a.mu.Unlock()
	st.logged = refused
	if err == nil {
		news := len(all) > 0 || len(st.cordons) > 0 || st.cordons == nil && a.nodes.any()
		st.cordons = all
		if news {
			a.notify()
		}
	}
	if losses == st.losses && !(st.known && st.tried) {
		st.known, st.tried = st.known || err == nil || refused, true
		close(a.changed)
		a.changed = make(chan struct{})
	}
	switch {
	case err != nil:
		return everyFailed
	case !st.subscribed:
		return everyUnsubscribed
	default:
		return everySubscribed
	}
}

// notify calls changed of the subjects whose cordon has changed. The caller holds mu.
func (a *watch) notify() {
	byNode := a.nodes.cordons()
	for s := range a.subjects {
		now, before := s.inForce(byNode), s.current.Load()
		if now == nil && before == nil || now != nil && before != nil && *now == *before {
			continue
		}
		s.current.Store(now)
		s.changed()
	}
}

func (s *Subject) inForce(byNode []map[string]protocol.Cordon) *protocol.Cordon {
	if c := protocol.CordonInForce(byNode, s.id); c != nil || s.host == "" || s.host == s.id {
		return c
	}
	return protocol.CordonInForce(byNode, s.host)
}

// known reports whether a majority of the nodes is known, or all were tried. It also returns a
// channel that is closed when that may have changed.
func (a *watch) known() (bool, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.nodes.known(a.w.nodes.Majority()), a.changed
}

package quorum

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// round is one request to all nodes. Once a majority has answered, the other nodes get a short
// time. Then the round ends: their answers count as unknown, and their requests finish in the
// background.
//
// record takes the answers. poll and vote get them from ask, which blocks. A posted round
// (posted.go) has no ask: its requests call record, and no goroutine waits.
type round struct {
	ask      func(node int) protocol.Answer // blocks for the node's answer, bounded by the call time-out
	majority int
	yes      protocol.Status // the answer that a majority has to give
	started  time.Time

	mu       sync.Mutex
	answers  []protocol.Answer
	agreed   int           // nodes that answered yes
	definite int           // nodes that answered
	missing  int           // expected nodes whose request has not ended
	ignored  map[int]bool  // nodes that are not expected to answer: their last request failed
	complete chan struct{} // closed when missing is 0; nil without ask
	over     chan struct{} // closed when the round has ended; nil without ask
	closed   bool
	timer    *time.Timer

	// decided is called once, when it is known whether a majority answers yes, or when the round has
	// ended. Nil: it was called, or nothing wants to know.
	decided func([]protocol.Answer)
}

// WaitFactor is how long the other nodes get once a majority has answered, in multiples of the
// majority's time. They get at least MinExtraWait, since timers are no finer.
const (
	WaitFactor   = 4
	MinExtraWait = time.Millisecond
)

var errOverruled = errors.New("no answer before the round ended")

// newRound returns a round that gets its answers from ask.
func newRound(n, majority int, yes protocol.Status, ask func(int) protocol.Answer) *round {
	r := &round{ask: ask, over: make(chan struct{}), complete: make(chan struct{}), answers: make([]protocol.Answer, n)}
	r.begin(time.Now(), majority, yes)
	return r
}

// post begins a round that no goroutine waits for: its requests call record. A round may be reused
// when none of its requests is under way.
func (r *round) post(at time.Time, n, majority int, yes protocol.Status, decided func([]protocol.Answer)) {
	answers := r.answers
	if len(answers) != n {
		answers = make([]protocol.Answer, n)
	}
	*r = round{decided: decided, answers: answers}
	r.begin(at, majority, yes)
}

func (r *round) begin(at time.Time, majority int, yes protocol.Status) {
	r.majority, r.yes, r.started, r.missing = majority, yes, at, len(r.answers)
	for i := range r.answers {
		r.answers[i] = protocol.Answer{Status: protocol.Unknown, Waiters: -1, Subscribers: -1}
	}
}

// vote queries one node and waits until the node has answered or the round has ended.
func (r *round) vote(node int) protocol.Answer {
	if len(r.answers) == 1 { // no other node can end the round
		r.record(node, r.ask(node))
		return r.now()[node]
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.record(node, r.ask(node))
	}()
	select {
	case <-done:
	case <-r.over:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.answers[node]
	if a.Status == protocol.Unknown && a.Err == nil {
		a.Err = errOverruled
	}
	return a
}

// poll queries all nodes and waits until it is known whether a majority answers yes, or until the
// round has ended.
func (r *round) poll() {
	if len(r.answers) == 1 {
		r.record(0, r.ask(0))
		return
	}
	known := make(chan struct{})
	r.decided = func([]protocol.Answer) { close(known) }
	for node := range r.answers {
		go func() { r.record(node, r.ask(node)) }()
	}
	<-known
}

func (r *round) record(node int, a protocol.Answer) {
	r.mu.Lock()
	r.answers[node] = a
	if !r.ignored[node] {
		if r.missing--; r.missing == 0 && r.complete != nil {
			close(r.complete)
		}
	}
	if a.Status == r.yes {
		r.agreed++
	}
	if a.Status != protocol.Unknown {
		r.definite++
		waited := r.ask != nil || r.agreed < r.majority
		if r.definite == r.majority && waited && r.definite < len(r.answers) {
			wait := max(MinExtraWait, WaitFactor*time.Since(r.started))
			r.timer = time.AfterFunc(wait, r.end)
		}
	}
	decide := r.decide(max(r.agreed, r.definite-r.agreed) >= r.majority || r.missing == 0)
	r.mu.Unlock()
	decide()
}

// end ends the round: every vote that still waits returns Unknown.
func (r *round) end() {
	r.mu.Lock()
	if r.timer != nil {
		r.timer.Stop()
	}
	if !r.closed {
		r.closed = true
		if r.over != nil {
			close(r.over)
		}
	}
	decide := r.decide(true)
	r.mu.Unlock()
	decide()
}

// decide returns a function that reports the outcome if it is known, to be called without mu. The
// caller holds mu.
func (r *round) decide(known bool) func() {
	decided := r.decided
	if !known || decided == nil {
		return func() {}
	}
	r.decided = nil
	answers := r.answers
	if r.missing > 0 { // record may still change them
		answers = slices.Clone(answers)
	}
	return func() { decided(answers) }
}

// ignore excludes a node that did not answer its last request from those that
// awaitExpected waits for. It must be called before the first vote.
func (r *round) ignore(node int) {
	if r.ignored == nil {
		r.ignored = map[int]bool{}
	}
	if r.missing > 1 && !r.ignored[node] {
		r.ignored[node] = true
		r.missing--
	}
}

// awaitExpected waits until all expected nodes have answered, or the round has ended:
// a majority decides which candidate may lead, but a single node may know why none
// should.
func (r *round) awaitExpected() {
	select {
	case <-r.complete:
	case <-r.over:
	}
}

// now returns a copy of the answers so far.
func (r *round) now() []protocol.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]protocol.Answer(nil), r.answers...)
}

package quorum

import (
	"slices"
	"sync"
	"time"
)

// round is one request to all nodes. The caller of vote waits for its node's answer
// until the round has ended: once a majority has answered, the others get a short
// time, then they count as unknown and finish in the background.
type round struct {
	ask      func(node int) Answer // blocks for the node's answer, bounded by the call time-out
	majority int
	started  time.Time

	mu       sync.Mutex
	answers  []Answer
	definite int
	missing  int           // nodes that are expected to answer and have not
	ignored  map[int]bool  // nodes that are not expected to: their last request failed
	complete chan struct{} // closed when all that were expected have answered; nil: no goroutine waits
	timer    *time.Timer
	over     chan struct{} // closed when it has ended; the same
	closed   bool

	// Of a round that no goroutine waits for: decided is called once, when it is known whether a majority
	// answers yes, or when the round has ended.
	decided func([]Answer) // nil: it was called, or a goroutine waits
	yes     Status
	agreed  int // nodes that answered yes
}

// waitFactor is how many times the majority's time the others get, at least
// minExtraWait: timers are no finer.
const (
	waitFactor   = 4
	minExtraWait = time.Millisecond
)

func newRound(n, majority int, ask func(int) Answer) *round {
	r := &round{ask: ask, over: make(chan struct{}), complete: make(chan struct{})}
	r.begin(n, majority)
	return r
}

// postedRound is one that no goroutine waits for: who brings the answers calls record.
func postedRound(n, majority int, yes Status, decided func([]Answer)) *round {
	r := &round{yes: yes, decided: decided}
	r.begin(n, majority)
	return r
}

func (r *round) begin(n, majority int) {
	r.majority, r.started, r.answers, r.missing = majority, time.Now(), make([]Answer, n), n
	for i := range r.answers {
		r.answers[i] = Answer{Status: Unknown, Waiters: -1, Subscribers: -1}
	}
}

// vote asks one node and waits until it answered or the round has ended.
func (r *round) vote(node int) Answer {
	if len(r.answers) == 1 { // there is no other to wait for
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
	if a.Status == Unknown && a.Err == nil {
		a.Err = errOverruled
	}
	return a
}

// poll asks all nodes. It returns with a majority that gives this answer, or another definite one, and at the latest when all
// have answered or the round has ended.
func (r *round) poll(yes Status) {
	if len(r.answers) == 1 {
		r.vote(0)
		return
	}
	voted := make(chan Status, len(r.answers))
	for i := range r.answers {
		go func() { voted <- r.vote(i).Status }()
	}
	count := map[bool]int{}
	for range r.answers {
		if a := <-voted; a != Unknown {
			if count[a == yes]++; count[a == yes] >= r.majority {
				return
			}
		}
	}
}

func (r *round) record(node int, a Answer) {
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
	if a.Status != Unknown {
		r.definite++
		if r.definite == r.majority && r.agreed < r.majority && r.definite < len(r.answers) {
			wait := max(minExtraWait, waitFactor*time.Since(r.started))
			r.timer = time.AfterFunc(wait, r.end)
		}
	}
	decide := r.decide(max(r.agreed, r.definite-r.agreed) >= r.majority || r.missing == 0)
	r.mu.Unlock()
	decide()
}

// end lets every vote that still waits return "unknown".
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

// decide returns what reports the outcome of a round that no goroutine waits for, to be called without mu. With mu
// held.
func (r *round) decide(known bool) func() {
	decided := r.decided
	if !known || decided == nil {
		return func() {}
	}
	r.decided = nil
	answers := r.answers
	if r.missing > 0 { // others may come still
		answers = slices.Clone(answers)
	}
	return func() { decided(answers) }
}

// ignore takes a node that did not answer its last request out of those that
// awaitExpected waits for. Before the first vote only.
func (r *round) ignore(node int) {
	if r.ignored == nil {
		r.ignored = map[int]bool{}
	}
	if r.missing > 1 && !r.ignored[node] {
		r.ignored[node] = true
		r.missing--
	}
}

// awaitExpected waits until all nodes that are expected to have answered, or until
// their time is over: a majority decides who may lead, but one node may know
// why no candidate should.
func (r *round) awaitExpected() {
	select {
	case <-r.complete:
	case <-r.over:
	}
}

// now is what is known at this moment.
func (r *round) now() []Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Answer(nil), r.answers...)
}

package elector

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// ExpiredError is why no renewal succeeded before the deadline of a term: the Err of an
// Ended with ReasonExpired. errors.Is finds ErrDenied in it when a majority of the nodes
// refused for want of a right, and ErrUnreachable when no majority answered.
type ExpiredError struct {
	// Suspended is for how long, at least, this process did not run: it was stopped, the
	// machine slept, or had no time for it. Zero: it ran.
	Suspended time.Duration
	// Unconfirmed is the time since the last renewal that a majority confirmed was sent;
	// zero when the clocks do not show it.
	Unconfirmed time.Duration
	// Nodes are those that did not confirm the renewals since, each with what it answered
	// or why it did not; none when there was no time for a renewal. Total is how many
	// nodes there are.
	Nodes []*NodeError
	Total int

	kinds []error // what errors.Is finds
}

func (e *ExpiredError) Error() string { return "elector: " + e.problem() }

func (e *ExpiredError) problem() string {
	switch {
	case e.Suspended > 0:
		return fmt.Sprintf("this process was suspended for %v", tenths(e.Suspended))
	case e.Unconfirmed == 0:
		return "the clocks of this host contradict each other: it was suspended, or its clock was set"
	case len(e.Nodes) == 0:
		return fmt.Sprintf("no renewal was answered for %v", tenths(e.Unconfirmed))
	}
	// The same answer of several nodes is given once: as with a right that is missing on all.
	var unanswered []string
	var answers []string
	from := map[string][]string{}
	for _, n := range e.Nodes {
		if !rediserr.Answered(n.Err) {
			unanswered = append(unanswered, n.Node+": "+rediserr.Cause(n.Err))
			continue
		}
		answer := n.Problem
		if from[answer] == nil {
			answers = append(answers, answer)
		}
		from[answer] = append(from[answer], n.Node)
	}
	var parts []string
	if len(unanswered) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d nodes did not answer for %v (%s)", len(unanswered), e.Total, tenths(e.Unconfirmed), strings.Join(unanswered, ", ")))
	}
	for _, answer := range answers {
		nodes := from[answer]
		parts = append(parts, fmt.Sprintf("refused for %v by %d of %d nodes (%s): %s", tenths(e.Unconfirmed), len(nodes), e.Total, strings.Join(nodes, ", "), answer))
	}
	return strings.Join(parts, "; ")
}

// Unwrap gives what errors.Is and errors.As look at: the kind, and the nodes' errors.
func (e *ExpiredError) Unwrap() []error {
	all := append([]error(nil), e.kinds...)
	for _, n := range e.Nodes {
		all = append(all, n)
	}
	return all
}

// tenths is a duration rounded as a person would round it.
func tenths(d time.Duration) time.Duration {
	if d < 100*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// expiryRecord is what a term records to explain, if it expires, why. Its guard looks at the clock every
// now and then: what is missing between its looks is when the process stood still.
type expiryRecord struct {
	every  time.Duration // how often the guard looks
	looked atomic.Int64  // when it did last, counted from the begin of the term
	// unconfirmed is the newest renewal that no majority confirmed; nil while they succeed.
	unconfirmed atomic.Pointer[unconfirmedRenewal]

	mu    sync.Mutex  // of timer
	timer *time.Timer // of the deadline, when that is near
}

// unconfirmedRenewal also holds when the first of its row was noticed, counted from the begin
// of the term.
type unconfirmedRenewal struct {
	first time.Duration
	tally quorum.Tally
}

// failed notes a renewal that no majority has confirmed.
func (x *expiryRecord) failed(elapsed time.Duration, tally quorum.Tally) {
	if before := x.unconfirmed.Load(); before != nil {
		elapsed = before.first
	}
	x.unconfirmed.Store(&unconfirmedRenewal{first: elapsed, tally: tally})
}

// why distinguishes a process that stood still from nodes that did not renew. elapsed is the time
// since the begin of the term, and age that since the newest renewal that succeeded.
func (x *expiryRecord) why(elapsed, age time.Duration) *ExpiredError {
	e := &ExpiredError{Unconfirmed: age}
	looked, last := time.Duration(x.looked.Load()), x.unconfirmed.Load()
	away := elapsed - looked - x.every
	if away > x.every && (last == nil || last.first >= looked) { // or else the nodes failed before it stood still
		e.Suspended = away
	}
	if last == nil {
		return e
	}
	e.Total = len(last.tally.Answers)
	errs := last.tally.NotConfirmed()
	e.Nodes = nodeErrors(errs)
	denied, unanswered := 0, 0
	for _, err := range errs {
		if rediserr.Denied(err) {
			denied++
		}
		if !rediserr.Answered(err) {
			unanswered++
		}
	}
	majority := e.Total/2 + 1
	switch {
	case e.Total-denied < majority:
		e.kinds = []error{ErrDenied}
	case e.Total-unanswered < majority:
		e.kinds = []error{ErrUnreachable}
	}
	return e
}

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

// expiredError is why no renewal succeeded before the deadline of a term: the Err of an
// Ended with ReasonExpired. errors.Is finds ErrDenied in it when so many nodes refused, because
// the Redis user lacks a right, that no majority was left, and ErrUnreachable when no majority
// answered.
type expiredError struct {
	// Suspended is for how long, at least, this process did not run: it was stopped, or the
	// host was suspended or too busy. Zero: it ran.
	Suspended time.Duration
	// Unconfirmed is how long ago the newest renewal was sent that a majority confirmed;
	// zero when the clocks do not show it.
	Unconfirmed time.Duration
	// Nodes are those that did not confirm the renewals since then, each with its answer or
	// the reason why there is none; empty when there was no time for a renewal. Total is the
	// number of all nodes.
	Nodes []*NodeError
	Total int

	kinds []error // what errors.Is finds
}

func (e *expiredError) Error() string { return "elector: " + e.problem() }

func (e *expiredError) problem() string {
	switch {
	case e.Suspended > 0:
		return fmt.Sprintf("this process was suspended for %v", tenths(e.Suspended))
	case e.Unconfirmed == 0:
		return "the clocks of this host contradict each other: it was suspended, or its clock was set"
	case len(e.Nodes) == 0:
		return fmt.Sprintf("no renewal was answered for %v", tenths(e.Unconfirmed))
	}
	// An answer that several nodes gave is printed once, such as for a right that is missing on all.
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

// Unwrap returns what errors.Is and errors.As search: the kind, and the nodes' errors.
func (e *expiredError) Unwrap() []error {
	all := append([]error(nil), e.kinds...)
	for _, n := range e.Nodes {
		all = append(all, n)
	}
	return all
}

// tenths rounds a duration for an error text: to 100 ms, and below that to 1 ms.
func tenths(d time.Duration) time.Duration {
	if d < 100*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}

// expiryRecord is what a term records to explain why it expires, if it does. Its guard reads the clock
// at regular intervals; a gap between two looks shows when the process did not run.
type expiryRecord struct {
	every  time.Duration // how often the guard looks
	looked atomic.Int64  // when it last did, counted from the begin of the term
	// unconfirmed is the newest renewal that no majority confirmed; nil while they succeed.
	unconfirmed atomic.Pointer[unconfirmedRenewal]

	mu    sync.Mutex  // of timer
	timer *time.Timer // for the deadline, when it is near
}

// unconfirmedRenewal is the newest of a series of unconfirmed renewals.
type unconfirmedRenewal struct {
	first time.Duration // when the outcome of the first one was known, counted from the begin of the term
	tally quorum.Tally
}

// failed records a renewal that no majority has confirmed.
func (x *expiryRecord) failed(elapsed time.Duration, tally quorum.Tally) {
	if before := x.unconfirmed.Load(); before != nil {
		elapsed = before.first
	}
	x.unconfirmed.Store(&unconfirmedRenewal{first: elapsed, tally: tally})
}

// why distinguishes a process that did not run from nodes that did not renew. elapsed is the time
// since the begin of the term, and age the time since the newest confirmed renewal was sent.
func (x *expiryRecord) why(elapsed, age time.Duration) *expiredError {
	e := &expiredError{Unconfirmed: age}
	looked, last := time.Duration(x.looked.Load()), x.unconfirmed.Load()
	away := elapsed - looked - x.every
	if away > x.every && (last == nil || last.first >= looked) { // otherwise the nodes failed before the process stopped running
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

package elector

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

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

	timer *time.Timer // of the guard
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

// why returns why no renewal succeeded before the deadline: this process did not run, or nodes did not
// renew. elapsed is the time since the begin of the term, and age the time since the newest confirmed
// renewal was sent. errors.Is finds ErrDenied or ErrUnreachable in it when no majority was left, and
// errors.As the NodeErrors.
func (x *expiryRecord) why(elapsed, age time.Duration) error {
	looked, last := time.Duration(x.looked.Load()), x.unconfirmed.Load()
	away := elapsed - looked - x.every
	switch {
	case away > x.every && (last == nil || last.first >= looked): // otherwise the nodes failed before the process stopped running
		return fmt.Errorf("this process was suspended for %v", tenths(away))
	case last == nil:
		return fmt.Errorf("no renewal was answered for %v", tenths(age))
	}
	return notRenewed(last.tally.NotConfirmed(), len(last.tally.Answers), age)
}

// notRenewed returns the error of a term whose renewals n nodes did not confirm, each with its error,
// for that long. An answer that several nodes gave is in the text once, such as for a right that is
// missing on all.
func notRenewed(errs []error, n int, age time.Duration) error {
	causes := []error{joinNodes(errs)}
	var unanswered, answers, parts []string
	denied, from := 0, map[string][]string{}
	for i, node := range nodeErrors(errs) {
		if rediserr.Denied(errs[i]) {
			denied++
		}
		if !rediserr.Answered(errs[i]) {
			unanswered = append(unanswered, node.Node+": "+rediserr.Cause(node.Err))
			continue
		}
		if from[node.Problem] == nil {
			answers = append(answers, node.Problem)
		}
		from[node.Problem] = append(from[node.Problem], node.Node)
	}
	if len(unanswered) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d nodes did not answer for %v (%s)", len(unanswered), n, tenths(age), strings.Join(unanswered, ", ")))
	}
	for _, answer := range answers {
		nodes := from[answer]
		parts = append(parts, fmt.Sprintf("refused for %v by %d of %d nodes (%s): %s", tenths(age), len(nodes), n, strings.Join(nodes, ", "), answer))
	}
	switch majority := n/2 + 1; {
	case n-denied < majority:
		causes = append(causes, ErrDenied)
	case n-len(unanswered) < majority:
		causes = append(causes, ErrUnreachable)
	}
	return explain(strings.Join(parts, "; "), causes...)
}

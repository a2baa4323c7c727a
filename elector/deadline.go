package elector

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// guard ends the term at its deadline, even when the goroutine that renews it is stuck. Its timer fires at
// the deadline, and reads the clock at least at that interval, because timers stand still while the
// host is suspended: the work of a host that slept is stopped within that interval.
func (t *Term) guard(every time.Duration) {
	t.every = every
	t.timer = time.AfterFunc(time.Hour, t.checkDeadline)
	left, _ := t.grant.Left()
	t.timer.Reset(min(left, every))
}

// checkDeadline ends the term if its deadline has passed. Otherwise it records, for an expiry, that this
// process is running, and sets the timer again.
func (t *Term) checkDeadline() {
	if t.ended.Load() {
		return
	}
	left, _ := t.grant.Left()
	if left <= 0 {
		t.expire()
		return
	}
	if elapsed, ok := t.clock.Since(t.begun); ok {
		t.checkedAt.Store(int64(elapsed))
	}
	t.timer.Reset(min(left, shared(t.every, t.every/moments)))
}

func (t *Term) expire() {
	elapsed, known := t.clock.Since(t.begun)
	age, ok := t.grant.Age()
	if !known || !ok {
		t.end(ReasonExpired, errors.New("the clocks of this host contradict each other: it was suspended, or its clock was set"))
		return
	}
	t.end(ReasonExpired, t.whyExpired(elapsed, age))
}

// unconfirmedRenewal is the newest of a series of renewals that no majority confirmed.
type unconfirmedRenewal struct {
	first time.Duration // when the outcome of the first one was known, counted from the begin of the term
	tally quorum.Tally
}

// notConfirmed records a renewal that no majority has confirmed: it explains why the term expires if
// no later one is confirmed in time.
func (t *Term) notConfirmed(tally quorum.Tally) {
	elapsed, ok := t.clock.Since(t.begun)
	if !ok {
		return
	}
	if before := t.unconfirmed.Load(); before != nil {
		elapsed = before.first
	}
	t.unconfirmed.Store(&unconfirmedRenewal{first: elapsed, tally: tally})
}

// held returns for how long the lease has covered the work: until now, or until the deadline if that
// has passed; zero when the clocks do not show it.
func (t *Term) held() time.Duration {
	elapsed, ok := t.clock.Since(t.begun)
	past, known := t.grant.Past()
	if !ok || !known {
		return 0
	}
	return max(0, elapsed-past)
}

// whyExpired returns why no renewal succeeded before the deadline: this process did not run, or nodes did not
// renew. elapsed is the time since the begin of the term, and age the time since the newest confirmed
// renewal was sent. errors.Is finds ErrDenied or ErrUnreachable in it when no majority was left, and
// errors.As the NodeErrors.
func (t *Term) whyExpired(elapsed, age time.Duration) error {
	checkedAt, last := time.Duration(t.checkedAt.Load()), t.unconfirmed.Load()
	away := elapsed - checkedAt - t.every
	switch {
	case away > t.every && (last == nil || last.first >= checkedAt): // otherwise the nodes failed before the process stopped running
		return fmt.Errorf("this process was suspended for %v", unit(away))
	case last == nil:
		return fmt.Errorf("no renewal was answered for %v", unit(age))
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
			unanswered = append(unanswered, node.Node+": "+node.Answer())
			continue
		}
		problem := node.Problem()
		if from[problem] == nil {
			answers = append(answers, problem)
		}
		from[problem] = append(from[problem], node.Node)
	}
	if len(unanswered) > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d nodes did not answer for %v (%s)", len(unanswered), n, unit(age), strings.Join(unanswered, ", ")))
	}
	for _, answer := range answers {
		nodes := from[answer]
		parts = append(parts, fmt.Sprintf("refused for %v by %d of %d nodes (%s): %s", unit(age), len(nodes), n, strings.Join(nodes, ", "), answer))
	}
	switch majority := protocol.Majority(n); {
	case n-denied < majority:
		causes = append(causes, ErrDenied)
	case n-len(unanswered) < majority:
		causes = append(causes, ErrUnreachable)
	}
	return explain(strings.Join(parts, "; "), causes...)
}

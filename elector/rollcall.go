package elector

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"time"
)

// Bounds of a conversation over the channel.
const (
	askTimeout   = time.Second            // for all answers
	joinTimeout  = 500 * time.Millisecond // to subscribe for them
	handoverLook = 200 * time.Millisecond // between looks at who leads
	// for the words about a change that was seen already
	handoverWords = 100 * time.Millisecond
	// for more answers than are expected: candidates of one process share their
	// connections, and count as one listener
	askLinger = 10 * time.Millisecond
)

// Candidates calls the roll of the election: who is a candidate at this moment, the
// leader first, then by id. It asks over the channel and waits until all that
// listen have answered, at most 3 s where a node or a candidate hangs (or until
// ctx ends). A candidate that hangs or is cut off is missing. The error is
// ErrUnreachable when no majority of the nodes could be asked, or none of them lets
// us receive the answers.
func (el *Election) Candidates(ctx context.Context) ([]CandidateStatus, error) {
	expected := el.nodes.Listeners(ctx, el.keys.Ask, joinTimeout)
	var all []CandidateStatus
	known := map[string]bool{}
	if expected == 0 {
		return nil, nil
	}
	err := el.ask(ctx, question{Kind: askRollCall}, askLinger, func(a answer) bool {
		if a.Card != nil && !known[a.Card.Incarnation] {
			known[a.Card.Incarnation] = true
			all = append(all, *a.Card)
		}
		return len(all) == expected
	})
	slices.SortFunc(all, func(a, b CandidateStatus) int {
		return cmp.Or(cmp.Compare(b.Token, a.Token), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return all, err
}

func (el *Election) publish(ctx context.Context, q question) []error {
	q.Election = el.name
	return el.nodes.Publish(ctx, el.keys.Ask, q.encode(), askTimeout)
}

// ask puts a question and hands over the answers until enough says so and what
// it lingers for has come too, or time is up.
func (el *Election) ask(ctx context.Context, q question, linger time.Duration, enough func(answer) bool) error {
	q.Nonce = rand.Text()
	e := el.bus.Collect(el.keys.Reply(q.Nonce), maxEvent)
	defer e.Close()
	if refused := e.Ready(ctx, joinTimeout); refused != nil { // asked in vain, and perhaps obeyed unheard
		return noMajority(el.nodes, refused)
	}
	errs := el.publish(ctx, q)
	failed := len(slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil }))
	if len(errs)-failed < el.nodes.Majority() {
		return noMajority(el.nodes, errs)
	}
	timeout := time.NewTimer(askTimeout)
	defer timeout.Stop()
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-timeout.C:
			over = true
		case <-e.Arrived():
		}
		// Also when time is up: on a busy machine what came in time may lie here unread.
		for _, m := range e.Take() {
			if a, err := parseAnswer(m.Payload); err == nil && enough(a) {
				timeout.Reset(linger)
			}
		}
	}
	return nil
}

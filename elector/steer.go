package elector

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
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

// Candidates calls the roll of an election: who takes part at this moment, the
// leader first, then by id. It asks over the channel and waits until all that
// listen have answered, at most 3 s where a node or a candidate hangs (or until
// ctx ends). A candidate that is
// hung or cut off is missing. The error is ErrUnreachable when no majority of the
// nodes could be asked, or none of them lets us hear the answers.
func (q *Quorum) Candidates(ctx context.Context, prefix, election string) ([]CandidateStatus, error) {
	s, err := q.steering(prefix, election)
	if err != nil {
		return nil, err
	}
	return s.candidates(ctx)
}

// Pause keeps anybody new from being elected, for d, or until Resume when d is
// 0. A leader that is there goes on, and makes room for another one only when it
// is asked to. A pause outlives restarts of all candidates. It blocks for two
// round trips, at most 2.5 s; the error tells which nodes could not be told, and
// matches ErrUnreachable when no majority could.
func (q *Quorum) Pause(ctx context.Context, prefix, election string, d time.Duration, reason string) error {
	s, err := q.steering(prefix, election)
	if err != nil {
		return err
	}
	if d < 0 || d > 0 && d < time.Millisecond {
		return fmt.Errorf("elector: a pause of %v: give at least a millisecond, or 0 for no end", d)
	}
	if err := checkReason(reason); err != nil {
		return err
	}
	note := cmp.Or(strings.ToValidUTF8(reason, "?"), "paused")
	err = s.enough(q.nodes.Pause(ctx, s.keys, note, d, statusTimeout))
	s.tell(ctx, question{Kind: sayPaused, Note: note})
	return err
}

const maxReason = 500

func checkReason(s string) error {
	if len(s) > maxReason {
		return fmt.Errorf("elector: a reason of %d bytes: at most %d", len(s), maxReason)
	}
	return nil
}

// Resume ends a pause; candidates that wait are told. It is no error when there
// was none. Bounds and errors are those of Pause.
func (q *Quorum) Resume(ctx context.Context, prefix, election string) error {
	s, err := q.steering(prefix, election)
	if err != nil {
		return err
	}
	err = s.enough(q.nodes.Resume(ctx, s.keys, statusTimeout))
	s.tell(ctx, question{Kind: sayResumed})
	return err
}

// steering is one operator's conversation with an election.
type steering struct {
	q        *Quorum
	election string
	keys     quorum.Keys
}

func (q *Quorum) steering(prefix, election string) (*steering, error) {
	prefix = cmp.Or(prefix, defaultPrefix)
	if err := errors.Join(checkWord("the prefix", prefix, maxName, "{}"), checkWord("the election's name", election, maxName, "{}")); err != nil {
		return nil, fmt.Errorf("elector: %w", err)
	}
	return &steering{q: q, election: election, keys: quorum.KeysOf(prefix, election)}, nil
}

// enough is nil when all nodes did it; an error that a majority did in spite of
// is no ErrUnreachable.
func (s *steering) enough(errs []error) error {
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	switch {
	case failed == 0:
		return nil
	case len(errs)-failed < s.q.nodes.Majority():
		return s.q.noMajority(errs)
	default:
		return fmt.Errorf("elector: not on all nodes, but on a majority: %w", errors.Join(errs...))
	}
}

func (s *steering) tell(ctx context.Context, q question) []error {
	q.Election = s.election
	return s.q.nodes.Publish(ctx, s.keys.Ask, q.encode(), askTimeout)
}

// ask puts a question and hands over the answers until enough says so and what
// it lingers for has come too, or time is up.
func (s *steering) ask(ctx context.Context, q question, linger time.Duration, enough func(answer) bool) error {
	q.Nonce = rand.Text()
	e := s.q.bus.Collect(s.keys.Reply(q.Nonce), maxEvent)
	defer e.Close()
	if refused := e.Ready(ctx, joinTimeout); refused != nil { // asked in vain, and perhaps obeyed unheard
		return s.q.noMajority(refused)
	}
	errs := s.tell(ctx, q)
	failed := len(slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil }))
	if len(errs)-failed < s.q.nodes.Majority() {
		return s.q.noMajority(errs)
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

func (s *steering) candidates(ctx context.Context) ([]CandidateStatus, error) {
	expected := s.q.nodes.Listeners(ctx, s.keys.Ask, joinTimeout)
	var all []CandidateStatus
	known := map[string]bool{}
	if expected == 0 {
		return nil, nil
	}
	err := s.ask(ctx, question{Kind: askRollCall}, askLinger, func(a answer) bool {
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

package elector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// Election is a handle for querying and operating one election: who leads, who
// the candidates are, what happened, and operator actions such as Pause. It
// needs no candidate in this process. Make one with Quorum.Election (no I/O),
// or take that of a candidate from Elector.Election. Safe for concurrent use;
// it needs no closing.
type Election struct {
	nodes *quorum.Nodes
	bus   *pubsub.Bus
	name  string
	keys  protocol.Keys

	operator string // the operator for whom this handle acts; may be empty

	own     *ownCandidate // the candidate in this process; nil: there is none
	unknown atomic.Bool   // the leader that Observe reported may be gone: Stats.LeaderUnknown
}

// ownCandidate is what Observe needs of the candidate in this process.
type ownCandidate struct {
	incarnation string
	lease       time.Duration
	events      *subscribers
	term        func() *Term // the valid one
}

// validTerm returns the term that this candidate serves, or nil when it does not lead.
func (c *ownCandidate) validTerm() *Term {
	if c == nil {
		return nil
	}
	return c.term()
}

// is reports whether incarnation is that of this candidate.
func (c *ownCandidate) is(incarnation string) bool { return c != nil && c.incarnation == incarnation }

// channel returns the channel on which the candidates of the election receive requests.
func (el *Election) channel() peers.Channel {
	return peers.Channel{Nodes: el.nodes, Bus: el.bus, Keys: &el.keys, Election: el.name}
}

// As returns a handle on the same election that acts for an operator: the history, the candidates'
// logs and the status show a step-down, a transfer or a pause requested through it as
// "by <operator>: <reason>". This text has at most 500 bytes.
func (el *Election) As(operator string) *Election {
	return &Election{nodes: el.nodes, bus: el.bus, name: el.name, keys: el.keys, own: el.own, operator: operator}
}

// signed returns reason with the operator's name in front, if there is one.
func (el *Election) signed(reason string) string {
	switch {
	case el.operator == "":
		return reason
	case reason == "":
		return "by " + el.operator
	default:
		return "by " + el.operator + ": " + reason
	}
}

// Prefix returns the first part of the election's keys: the prefix of the Quorum that made it.
func (el *Election) Prefix() string {
	prefix, _, _ := strings.Cut(el.keys.Lock, ":{")
	return prefix
}

// Name returns the name of the election.
func (el *Election) Name() string { return el.name }

// Status queries every node about the election, and waits for each at most 1.5 s
// (or until ctx ends). Once a majority agrees, it waits for the other nodes only
// four times as long as that took, but at least 250 ms: a node that hangs is then
// reported as unreachable. The rights to read suffice.
//
// The error is ErrUnreachable, with each node's NodeError, when no majority
// answered, and also ErrDenied when the cause is a missing right. The Status is
// then as complete as it can be.
func (el *Election) Status(ctx context.Context) (Status, error) {
	if err := checkOpen(el.nodes); err != nil {
		return Status{Election: el.name}, err
	}
	views := registry.Read(ctx, el.nodes, el.keys, statusTimeout)
	st, errs := summarize(el.name, el.keys, views, el.nodes.Majority())
	if len(views)-len(errs) < el.nodes.Majority() {
		return st, noMajority(el.nodes.Len(), errs)
	}
	return st, nil
}

// Leader queries Redis for the leader. It blocks for a round trip, at most 1.5 s. The error is
// ErrNoLeader, or one of those of Status.
func (el *Election) Leader(ctx context.Context) (Leader, error) {
	st, err := el.Status(ctx)
	if err != nil {
		return Leader{}, err
	}
	if st.Leader == nil && st.Blocked != "" {
		return Leader{}, failed(ErrNoLeader, "no leader, and no candidate can lead: %s", st.Blocked)
	}
	if st.Leader == nil {
		return Leader{}, ErrNoLeader
	}
	return *st.Leader, nil
}

// Pause prevents the election of a new leader, for d, or until Resume when d is 0. The current
// leader remains leader, and steps down only on request. A pause survives restarts of all
// candidates. Pause blocks for at most 2.5 s, or 4 s if it is refused while a node hangs. reason is shown to operators; with the operator's name
// (As) it has at most 500 bytes. The history records the pause if the Redis user may write there.
//
// The error is ErrRefused when another operator (As) has already paused the election; an
// operator's own pause is replaced. If nodes did not take the pause, the error holds the NodeError
// of each. It then matches ErrUnreachable when no majority took the pause; otherwise the election
// is paused.
func (el *Election) Pause(ctx context.Context, d time.Duration, reason string) error {
	return el.pause(ctx, d, reason, false)
}

// ReplacePause is like Pause, but also replaces the pause of another operator.
func (el *Election) ReplacePause(ctx context.Context, d time.Duration, reason string) error {
	return el.pause(ctx, d, reason, true)
}

func (el *Election) pause(ctx context.Context, d time.Duration, reason string, replace bool) error {
	if d < 0 || d > 0 && d < time.Millisecond {
		return fmt.Errorf("a pause of %v: give at least a millisecond, or 0 for no end", d)
	}
	if err := checkReason(el.signed(reason)); err != nil {
		return err
	}
	if err := checkOpen(el.nodes); err != nil {
		return err
	}
	note := protocol.PauseNote{By: el.operator, Reason: strings.ToValidUTF8(reason, "?"), Since: time.Now().UTC().Truncate(time.Millisecond)}
	errs := registry.Pause(ctx, el.nodes, el.keys, note, d, replace, statusTimeout)
	if err := pausedByAnother(errs, el.nodes.Majority()); err != nil {
		return err
	}
	err := partialFailure(el.nodes, errs)
	el.record(ctx, Event{Kind: eventPaused, By: note.By, Detail: note.Reason, For: d}, err, func(ctx context.Context) {
		el.channel().Paused(ctx, note.String())
	})
	return err
}

// pausedByAnother returns ErrRefused when a majority of the nodes refused a pause because another
// operator's is in force.
func pausedByAnother(errs []error, majority int) error {
	refusals := 0
	var other *protocol.PausedError
	for _, err := range errs {
		if errors.As(err, &other) {
			refusals++
		}
	}
	if refusals < majority {
		return nil
	}
	return newRefusal("%s", other.Error())
}

// record writes an operator's action to the history of all nodes and at the same time calls notify,
// which notifies the candidates. err is the error of the action: an action that no majority carried
// out is not recorded.
func (el *Election) record(ctx context.Context, ev Event, err error, notify func(context.Context)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if !errors.Is(err, ErrUnreachable) {
		ev.Version, ev.Election, ev.Time = eventVersion, el.name, time.Now().Round(0).UTC()
		// Best effort: a user that may not write the history can pause nevertheless.
		wg.Go(func() { registry.Record(ctx, el.nodes, el.keys, ev.encode(), recordTimeout) })
	}
	notify(ctx)
}

// recordTimeout bounds the recording of an operator's action. It is no longer than the time-out of
// notifying the candidates, which runs at the same time.
const recordTimeout = time.Second

func checkReason(s string) error {
	if len(s) > protocol.MaxReason {
		return fmt.Errorf("a reason of %d bytes: at most %d", len(s), protocol.MaxReason)
	}
	return nil
}

// Resume ends a pause, and wakes the candidates that wait for its end. It is no error if the
// election was not paused. Bounds and errors are those of Pause.
func (el *Election) Resume(ctx context.Context) error {
	if err := checkOpen(el.nodes); err != nil {
		return err
	}
	ended, errs := registry.Resume(ctx, el.nodes, el.keys, statusTimeout)
	err := partialFailure(el.nodes, errs)
	if !ended {
		el.channel().Resumed(ctx)
		return err
	}
	el.record(ctx, Event{Kind: eventResumed, By: el.operator}, err, el.channel().Resumed)
	return err
}

// partialFailure returns nil when all nodes carried out a request. When only a majority did, the error names
// the nodes that failed, and does not match ErrUnreachable.
func partialFailure(nodes *quorum.Nodes, errs []error) error {
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	switch {
	case failed == 0:
		return nil
	case len(errs)-failed < nodes.Majority():
		return noMajority(nodes.Len(), errs)
	default:
		return onNodes(errors.New("not on all nodes, but on a majority"), errs)
	}
}

package elector

import (
	"context"
	"errors"
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

// Election is one election, seen from outside: who leads, who is a candidate,
// what happened, and what an operator does about it. Nothing of it needs a
// candidacy in this process. Make one with Quorum.Election (no I/O), or take a
// candidate's own with Elector.Election. Safe for concurrent use; it needs no
// closing.
type Election struct {
	nodes *quorum.Nodes
	bus   *pubsub.Bus
	name  string
	keys  protocol.Keys

	operator string // who acts through this handle; may be empty

	own     *ownCandidate // nil: none of this process
	unknown atomic.Bool   // the leader that Observe reported may be gone: Stats.LeaderUnknown
}

// ownCandidate is what Observe takes from a candidate of this process.
type ownCandidate struct {
	incarnation string
	lease       time.Duration
	events      *subscribers
	term        func() *Term // the valid one
}

// validTerm is the term that the candidate of this process serves; nil: none.
func (c *ownCandidate) validTerm() *Term {
	if c == nil {
		return nil
	}
	return c.term()
}

// is reports whether an incarnation is that candidate's.
func (c *ownCandidate) is(incarnation string) bool { return c != nil && c.incarnation == incarnation }

// channel is where the candidates of the election are reached.
func (el *Election) channel() peers.Channel {
	return peers.Channel{Nodes: el.nodes, Bus: el.bus, Keys: &el.keys, Election: el.name}
}

// As is the election in the hands of an operator: a step-down, a transfer or a pause that is
// requested through it names the operator in the history, in the candidates' logs and in the
// status, as "by <operator>: <reason>". Both together have at most 500 bytes.
func (el *Election) As(operator string) *Election {
	return &Election{nodes: el.nodes, bus: el.bus, name: el.name, keys: el.keys, own: el.own, operator: operator}
}

// signed is a reason with the operator's name.
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

// Prefix is the first part of its keys: that of the Quorum which made it.
func (el *Election) Prefix() string {
	prefix, _, _ := strings.Cut(el.keys.Lock, ":{")
	return prefix
}

// Name is the election's name.
func (el *Election) Name() string { return el.name }

// Status queries every node about the election, and waits for each at most 1.5 s
// (or until ctx ends). Once a majority agrees, it waits for the others only for
// four times as long as that took, at least 250 ms: a node that hangs is then
// reported as unreachable. When the term began is looked up after that, for at
// most 0.5 s. The error is ErrUnreachable, with each node's NodeError, when no
// majority answered (and ErrDenied, when what they lack is a right); the Status is
// then as complete as it can be. The rights to read suffice.
func (el *Election) Status(ctx context.Context) (Status, error) {
	st, err := el.look(ctx)
	if err == nil && st.Leader != nil {
		sent := time.Now()
		st.Leader.Since = el.since(ctx, st.Leader.Token)
		st.Leader.LeaseLeft = max(0, st.Leader.LeaseLeft-time.Since(sent))
	}
	return st, err
}

// Leader queries Redis: who leads, and then since when. It blocks for two round trips,
// at most 2 s. The error is ErrNoLeader, or those of Status.
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

// look is Status without the history: one request per node.
func (el *Election) look(ctx context.Context) (Status, error) {
	if err := checkOpen(el.nodes); err != nil {
		return Status{Election: el.name}, err
	}
	views := registry.Read(ctx, el.nodes, el.keys, statusTimeout)
	st, errs := summarize(el.name, el.keys, views, el.nodes.Majority())
	if len(views)-len(errs) < el.nodes.Majority() {
		return st, noMajority(el.nodes, errs)
	}
	return st, nil
}

// since looks the term's begin up in the history.
func (el *Election) since(ctx context.Context, token uint64) time.Time {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout/3)
	defer cancel()
	var begun time.Time // best effort: the history may be trimmed, or not be permitted
	// Pauses of the term stand in front of its begin.
	for _, count := range []int{10, 100, protocol.WholeHistory} {
		read := 0 // on all nodes: at worst it queries once more
		_, found := registry.Find(ctx, el.nodes, el.keys, int64(count), func(entry string) bool {
			read++
			ev, err := parseEvent(entry)
			if err != nil || ev.Kind != EventElected || ev.Token != token {
				return false
			}
			begun = ev.Time
			return true
		})
		if found || read < count || ctx.Err() != nil {
			break
		}
	}
	return begun
}

// Pause prevents the election of a new leader, for d, or until Resume when d is
// 0. A leader that is there remains leader, and makes room for another one only
// on request. A pause outlives restarts of all candidates. It blocks for
// at most 2.5 s. The error is ErrRefused when another operator (As) has paused the election
// already; one's own pause is replaced. Otherwise the error holds the NodeError of each node
// that did not take it, and matches ErrUnreachable when no majority did: without that,
// the election is paused. reason is for operators to see, at most 500 bytes. The history
// records the pause if the Redis user may write there.
func (el *Election) Pause(ctx context.Context, d time.Duration, reason string) error {
	return el.pause(ctx, d, reason, false)
}

// ReplacePause is Pause also where another operator has paused the election.
func (el *Election) ReplacePause(ctx context.Context, d time.Duration, reason string) error {
	return el.pause(ctx, d, reason, true)
}

func (el *Election) pause(ctx context.Context, d time.Duration, reason string, replace bool) error {
	if d < 0 || d > 0 && d < time.Millisecond {
		return failed(nil, "a pause of %v: give at least a millisecond, or 0 for no end", d)
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
	err := enough(el.nodes, errs)
	el.record(ctx, Event{Kind: eventPaused, By: note.By, Detail: note.Reason, For: d}, err, func(ctx context.Context) {
		el.channel().Paused(ctx, note.String())
	})
	return err
}

// pausedByAnother is the refusal of a majority of the nodes.
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

// record has the nodes record an operator's action that a majority has carried out, while
// the candidates are notified.
func (el *Election) record(ctx context.Context, ev Event, err error, notify func(context.Context)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if !errors.Is(err, ErrUnreachable) {
		ev.Version, ev.Election, ev.Time = eventVersion, el.name, time.Now().Round(0).UTC()
		// Best effort: a user that may not write there pauses all the same.
		wg.Go(func() { registry.Record(ctx, el.nodes, el.keys, ev.encode(), recordTimeout) })
	}
	notify(ctx)
}

// recordTimeout bounds the record of an operator's action: it is no longer than the
// candidates are notified.
const recordTimeout = time.Second

func checkReason(s string) error {
	if len(s) > protocol.MaxReason {
		return failed(nil, "a reason of %d bytes: at most %d", len(s), protocol.MaxReason)
	}
	return nil
}

// Resume ends a pause, and wakes the candidates that wait for that. It is no error
// when there was none. Bounds and errors are those of Pause.
func (el *Election) Resume(ctx context.Context) error {
	if err := checkOpen(el.nodes); err != nil {
		return err
	}
	ended, errs := registry.Resume(ctx, el.nodes, el.keys, statusTimeout)
	err := enough(el.nodes, errs)
	if !ended {
		el.channel().Resumed(ctx)
		return err
	}
	el.record(ctx, Event{Kind: eventResumed, By: el.operator}, err, el.channel().Resumed)
	return err
}

// enough is nil when all nodes did it; an error that a majority did in spite of
// is no ErrUnreachable.
func enough(nodes *quorum.Nodes, errs []error) error {
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
		return noMajority(nodes, errs)
	default:
		return &QuorumError{Problem: "not on all nodes, but on a majority", Nodes: nodeErrors(errs)}
	}
}

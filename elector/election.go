package elector

import (
	"context"
	"sync/atomic"

	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
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

	own     *candidate  // in this process, whose own events Observe reports; nil: there is none
	unknown atomic.Bool // the leader that Observe reported may be gone: Stats.LeaderUnknown
}

// channel returns the channel on which the candidates of the election receive requests.
func (el *Election) channel() peers.Channel {
	return peers.Channel{Nodes: el.nodes, Bus: el.bus, Keys: &el.keys, Election: el.name}
}

// Nodes is for other packages of this module, as [Quorum.Parts] is.
func (el *Election) Nodes(module.Only) *quorum.Nodes { return el.nodes }

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
func (el *Election) Prefix() string { return el.keys.Prefix() }

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
func (el *Election) Status(ctx context.Context) (Status, error) { return el.look(ctx, 0) }

// look is Status with so many of the newest entries of the history: all that is shown of one moment comes from one look.
func (el *Election) look(ctx context.Context, entries int) (Status, error) {
	if err := checkOpen(el.nodes); err != nil {
		return Status{Election: el.name}, err
	}
	st := summarize(el.name, readNodes(ctx, el.nodes, &el.keys, statusTimeout, entries), el.nodes.Majority())
	if errs := errorsOf(st.Nodes); len(st.Nodes)-len(errs) < el.nodes.Majority() {
		return st, noMajority(el.nodes.Len(), errs)
	}
	return st, nil
}

// Leader queries Redis for the leader. It blocks for a round trip, at most 1.5 s. The error is
// ErrNoLeader, or one of those of Status; it is ErrUnreachable also when only Status.MayLead is known.
func (el *Election) Leader(ctx context.Context) (Leader, error) {
	st, err := el.Status(ctx)
	if err != nil {
		return Leader{}, err
	}
	return st.leader()
}

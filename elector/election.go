package elector

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// Election is a handle for querying and operating one election: who leads, who
// the candidates are, what happened, and operator actions such as Pause. It
// needs no candidate in this process. Make one with Quorum.Election (no I/O),
// or take that of a candidate from Elector.Election. Safe for concurrent use;
// it needs no closing.
type Election struct {
	nodes *nodes.Nodes
	bus   *pubsub.Bus
	hooks *termHooks
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
func (el *Election) Nodes(module.Only) *nodes.Nodes { return el.nodes }

// OnTerm is for package schedule: f is called when a candidate of this process begins a term in the election, before its work. It
// must not block.
func (el *Election) OnTerm(_ module.Only, f func(candidate string, log *slog.Logger, term *Term)) {
	el.hooks.mu.Lock()
	defer el.hooks.mu.Unlock()
	el.hooks.on[el.keys.Lock] = append(el.hooks.on[el.keys.Lock], f)
}

// Serve is for package schedule, too: it notes that jobs run in a term; nil: in none. Served returns that term.
func (el *Election) Serve(_ module.Only, t *Term) {
	el.hooks.mu.Lock()
	defer el.hooks.mu.Unlock()
	el.hooks.served[el.keys.Lock] = t
}

// Served returns the term that was given to Serve by a program of this process.
func (el *Election) Served(module.Only) *Term {
	el.hooks.mu.Lock()
	defer el.hooks.mu.Unlock()
	return el.hooks.served[el.keys.Lock]
}

// As returns a handle on the same election that acts for an operator: the history, the candidates'
// logs and the status show a step-down, a transfer or a pause requested through it as
// "by <operator>: <reason>". This text has at most 500 bytes.
func (el *Election) As(operator string) *Election {
	return &Election{nodes: el.nodes, bus: el.bus, hooks: el.hooks, name: el.name, keys: el.keys, own: el.own, operator: operator}
}

// signed returns reason with the operator's name in front, if there is one.
func (el *Election) signed(reason string) string {
	if el.operator == "" {
		return reason
	}
	return protocol.PauseNote{By: el.operator, Reason: reason}.String()
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
func (el *Election) Status(ctx context.Context) (Status, error) { return el.read(ctx, 0, false) }

// Leader queries Redis for the leader. It blocks for a round trip, at most 1.5 s. The error is
// ErrNoLeader, or one of those of Status; it is ErrUnreachable also when only Status.MayLead is known.
func (el *Election) Leader(ctx context.Context) (Leader, error) {
	st, err := el.Status(ctx)
	if err != nil {
		return Leader{}, err
	}
	return st.leader()
}

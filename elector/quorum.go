package elector

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/cordon"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/registry"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
)

// Quorum is a set of independent Redis deployments of which a majority decides:
// one, three or five (an even number is refused, it would tolerate no more
// failures). One Quorum serves any number of Electors and Elections; it keeps a
// few connections and one subscription per node. Safe for concurrent use.
type Quorum struct {
	nodes    *quorum.Nodes
	bus      *pubsub.Bus
	cordons  *cordon.Watcher         // which candidates are cordoned
	guards   *guards                 // of the terms of all candidates
	renewals *schedule               // of the terms of all candidates
	claims   *schedule               // of all followers
	last     *lastEvent              // that one of them received
	owned    []redis.UniversalClient // only the options were needed
	prefix   string                  // of every key; "": the default one
}

const defaultPrefix = "mandate"

// NewQuorum makes a Quorum from go-redis clients: *redis.Client (single server,
// or Sentinel by redis.NewFailoverClient) or *redis.ClusterClient. It derives
// its own connections from their options (hooks are not taken over), does no
// I/O, and leaves the clients to the caller.
func NewQuorum(clients ...redis.UniversalClient) (*Quorum, error) {
	nodes, err := quorum.Open(clients)
	if err != nil {
		return nil, configError("quorum: ", err)
	}
	supervised.Inherit() // before this program starts another one
	bus := pubsub.New(nodes)
	return &Quorum{nodes: nodes, bus: bus, guards: &guards{}, renewals: &schedule{gather: nodes.Gather}, claims: &schedule{gather: nodes.Gather}, last: &lastEvent{}, cordons: cordon.New(nodes, bus)}, nil
}

func closeAll(clients []redis.UniversalClient) {
	for _, c := range clients {
		_ = c.Close()
	}
}

// Close ends all connections and subscriptions, and cuts off the requests that are
// under way. Close it last: a candidacy on it ends, too, with ErrClosed, but can release
// its lock no more, so that the next leader has to wait for the lease. Whatever is
// called later returns ErrClosed.
func (q *Quorum) Close() error {
	q.nodes.Close()
	q.bus.Close()
	closeAll(q.owned)
	return nil
}

// untilClosed is ctx, which ends with the nodes too, and then with ErrClosed as its cause.
func untilClosed(ctx context.Context, nodes *quorum.Nodes) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(nodes.Life(), func() { cancel(ErrClosed) })
	return ctx, func() {
		unlink()
		cancel(nil)
	}
}

// Size is the number of nodes.
func (q *Quorum) Size() int { return q.nodes.Len() }

// Namespace is the same Quorum with its own elections: the first part of
// their keys is prefix, where it is "mandate" by default. It shares the nodes and
// the connections, and closing either closes both. A prefix with spaces or
// braces, or longer than 200 bytes, is refused by what is made with it; an empty one
// is the default.
//
//	orders, err := q.Namespace("team-a").Election("orders")
func (q *Quorum) Namespace(prefix string) *Quorum {
	return &Quorum{nodes: q.nodes, bus: q.bus, guards: q.guards, renewals: q.renewals, claims: q.claims, last: q.last, cordons: q.cordons, owned: q.owned, prefix: cmp.Or(prefix, defaultPrefix)}
}

// Prefix is the first part of the keys of all elections that are made on this Quorum.
func (q *Quorum) Prefix() string { return cmp.Or(q.prefix, defaultPrefix) }

// Election is the election of that name, for those who look at it or operate it
// without being a candidate. It does no I/O, and an election that has never
// begun is no error. The name is the candidates' Config.Election.
func (q *Quorum) Election(name string) (*Election, error) {
	prefix := q.Prefix()
	err := configError("", protocol.CheckWord("Prefix", prefix, protocol.MaxName, "{}"), protocol.CheckWord("Election", name, protocol.MaxName, "{}"))
	if err != nil {
		return nil, err
	}
	return &Election{nodes: q.nodes, bus: q.bus, name: name, keys: protocol.KeysOf(prefix, name)}, nil
}

// maxElections bounds what Elections returns.
const maxElections = 10_000

// Elections lists the elections of the Quorum's prefix (Namespace) by name, also those that have
// no candidate any more, of which Redis keeps the counter, those that are only paused, and those
// whose candidates have never been able to campaign. It looks at every key (SCAN) and every
// channel (PUBSUB CHANNELS) of every node, with Cluster of every master, for at most 1.5 s or
// until ctx ends. Of more than 10,000 it leaves out idle ones first (ElectionsByUse).
//
// The error is ErrUnreachable when no majority of the nodes could be read and
// nothing was found; any other one is why something may be missing from what
// is returned with it.
func (q *Quorum) Elections(ctx context.Context) ([]string, error) {
	used, idle, err := q.ElectionsByUse(ctx)
	all := slices.Concat(used, idle)
	slices.Sort(all)
	return all, err
}

// ElectionsByUse is Elections in two lists, for who can't show or read all of them: used are
// those that are led, paused or have candidates, idle are the others, whose candidates are all
// gone. Most idle ones are abandoned; one whose last term ended a moment ago may be missed.
func (q *Quorum) ElectionsByUse(ctx context.Context) (used, idle []string, err error) {
	prefix := q.Prefix()
	if err := configError("", protocol.CheckWord("Prefix", prefix, protocol.MaxName, "{}")); err != nil {
		return nil, nil, err
	}
	if err := checkOpen(q.nodes); err != nil {
		return nil, nil, err
	}
	used, idle, errs := registry.Elections(ctx, q.nodes, prefix, maxElections, statusTimeout)
	if errors.Join(errs...) == nil {
		return used, idle, nil
	}
	answers := 0
	for _, e := range errs {
		if e == nil {
			answers++
		}
	}
	if answers < q.nodes.Majority() && len(used)+len(idle) == 0 {
		return nil, nil, noMajority(q.nodes, errs)
	}
	return used, idle, &QuorumError{Problem: "the list may be incomplete", Nodes: nodeErrors(errs)}
}

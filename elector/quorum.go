package elector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/setting"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
)

// Quorum is a set of independent Redis deployments of which a majority decides:
// one, three or five (an even number is refused: it would tolerate no more
// failures). One Quorum serves any number of Electors and Elections; it keeps a
// few connections and one subscription per node. Safe for concurrent use.
type Quorum struct {
	nodes  *nodes.Nodes
	bus    *pubsub.Bus
	owned  []redis.UniversalClient // made by Open for their options alone; Close closes them
	prefix string                  // of every key; "": the default one
	hooks  *termHooks
}

// termHooks has what is called when a candidate of this process begins a term, by the key of its lock. Safe for concurrent use.
type termHooks struct {
	mu     sync.Mutex
	on     map[string][]onTerm
	served map[string]*Term // that package schedule runs jobs in

	overload lasting // what was logged of that
}

type onTerm func(candidate string, log *slog.Logger, term *Term)

func (h *termHooks) begun(c *candidate, t *Term) {
	h.mu.Lock()
	calls := slices.Clone(h.on[c.keys.Lock])
	h.mu.Unlock()
	for _, f := range calls {
		f(c.cfg.ID, c.log, t)
	}
}

const defaultPrefix = "mandate"

// NewQuorum makes a Quorum from go-redis clients: *redis.Client (single server,
// or Sentinel by redis.NewFailoverClient) or *redis.ClusterClient. It does no
// I/O. It makes connections of its own with the clients' options, but without
// their hooks. The clients stay the caller's, and may be closed. docs/servers.md
// says what to set for sentinels; Open does.
func NewQuorum(clients ...redis.UniversalClient) (*Quorum, error) {
	nodes, err := nodes.Open(clients)
	if err != nil {
		return nil, setting.Join("quorum: ", err)
	}
	supervised.Inherit() // before this program starts a child, which must not inherit the pipe
	bus := pubsub.New(nodes)
	return &Quorum{nodes: nodes, bus: bus, hooks: &termHooks{on: map[string][]onTerm{}, served: map[string]*Term{}}}, nil
}

func closeAll(clients []redis.UniversalClient) {
	for _, c := range clients {
		_ = c.Close()
	}
}

// Close ends the candidates on this Quorum, as the end of their contexts does, waits until they have released
// their locks, at most 2 s, and ends all connections and subscriptions. Their Run returns ErrClosed, as
// does every later call. The lock of a leader whose work does not return in this time, or whose campaigned term is
// not closed, lasts until its lease expires: so work must not call Close, which would wait for it.
func (q *Quorum) Close() error {
	if q == nil || q.nodes == nil {
		return nil
	}
	q.nodes.Close()
	q.bus.Close()
	closeAll(q.owned)
	return nil
}

// untilClosed returns a context that ends with ctx, or when nodes are closed, and then with
// ErrClosed as its cause.
func untilClosed(ctx context.Context, nodes *nodes.Nodes) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(nodes.Life(), func() { cancel(ErrClosed) })
	return ctx, func() {
		unlink()
		cancel(nil)
	}
}

// Parts is for other packages of this module, which alone can name the type of its argument. It returns
// the nodes, and the subscriptions to them; nil for a Quorum that is nil or the zero value. Close closes
// both.
func (q *Quorum) Parts(module.Only) (*nodes.Nodes, *pubsub.Bus) {
	if q == nil {
		return nil, nil
	}
	return q.nodes, q.bus
}

// NoMajority is for other packages of this module, too: it returns the ErrUnreachable, or the ErrDenied, of a
// request to the nodes that failed with these errors.
func (q *Quorum) NoMajority(_ module.Only, errs []error) error {
	return noMajority(q.nodes.Len(), errs)
}

// Namespace returns the same Quorum with elections of its own: the first part of
// their keys is prefix, in place of the default "mandate". Both share the nodes
// and the connections, and closing either closes both. A prefix with spaces or
// braces, or longer than 200 bytes, is refused by the methods that use it, such
// as Election; an empty one means the default.
//
//	orders, err := q.Namespace("team-a").Election("orders")
func (q *Quorum) Namespace(prefix string) *Quorum {
	return &Quorum{nodes: q.nodes, bus: q.bus, owned: q.owned, prefix: cmp.Or(prefix, defaultPrefix), hooks: q.hooks}
}

// Prefix returns the first part of the keys of all elections that are made on this Quorum.
func (q *Quorum) Prefix() string { return cmp.Or(q.prefix, defaultPrefix) }

// Election returns the election of that name, for programs that query or operate
// it without being a candidate. It does no I/O, so an election that has never
// begun is no error. name is the candidates' Config.Election.
func (q *Quorum) Election(name string) (*Election, error) {
	if q == nil || q.nodes == nil {
		return nil, errNoQuorum
	}
	prefix := q.Prefix()
	err := setting.Join("", protocol.CheckWord("Prefix", prefix, protocol.MaxName, "{}"), protocol.CheckWord("Election", name, protocol.MaxName, "{}"))
	if err != nil {
		return nil, err
	}
	return &Election{nodes: q.nodes, bus: q.bus, hooks: q.hooks, name: name, keys: protocol.KeysOf(prefix, name).In(q.nodes.Database())}, nil
}

// maxElections bounds what Elections returns.
const maxElections = 10_000

// Elections lists the elections under the Quorum's prefix (Namespace), those with the newest events
// first, at most 10,000. Candidates keep the name of their election on the nodes while one leads, or
// while none can, because their probes fail or the election is paused; a name is dropped when it has
// had no event and no such candidate for 30 days. Elections queries each node once, and waits for it at most 1.5 s or until
// ctx ends.
//
// The error is ErrUnreachable when no majority of the nodes could be read and
// nothing was found. Any other error of a node means that the list returned
// with it may be incomplete.
func (q *Quorum) Elections(ctx context.Context) ([]string, error) {
	prefix := q.Prefix()
	if err := setting.Join("", protocol.CheckWord("Prefix", prefix, protocol.MaxName, "{}")); err != nil {
		return nil, err
	}
	if err := checkOpen(q.nodes); err != nil {
		return nil, err
	}
	names, errs := listed(ctx, q.nodes, prefix, maxElections)
	switch {
	case errors.Join(errs...) == nil:
		return names, nil
	case answersOf(errs) < q.nodes.Majority() && len(names) == 0:
		return nil, noMajority(q.nodes.Len(), errs)
	default:
		return names, onNodes(errors.New("the list may be incomplete"), errs)
	}
}

// listed returns the names that the nodes keep under a prefix, those with the newest events first, at
// most most of them. The errors are by node.
func listed(ctx context.Context, ns *nodes.Nodes, prefix string, most int) (names []string, errs []error) {
	key := protocol.NamesKey(prefix)
	list := func(ctx context.Context, n *nodes.Node) ([]redis.Z, error) {
		cmd := redis.NewZSliceCmd(ctx, "zrevrange", key, 0, most, "withscores")
		if err := n.Do(ctx, cmd); rediserr.WrongType(err) {
			return nil, rediserr.ForeignKey(key, "holds another type than a sorted set")
		} else if err != nil {
			return nil, rediserr.Needs(err, "+zrevrange %R~"+key)
		}
		return cmd.Val(), nil
	}
	last := map[string]float64{} // the time of the last event, by name
	for _, a := range nodes.Ask(ctx, ns, statusTimeout, statusTimeout, list, nodes.Majority[[]redis.Z](ns)) {
		for _, z := range a.Value {
			// An invalid name must not prevent reading all other elections.
			if name, _ := z.Member.(string); protocol.CheckWord("Election", name, protocol.MaxName, "{}") == nil {
				last[name] = max(last[name], z.Score)
			}
		}
		if len(a.Value) > most {
			a.Err = fmt.Errorf("there are more than %d elections", most)
		}
		errs = append(errs, a.Err)
	}
	names = slices.SortedFunc(maps.Keys(last), func(a, b string) int {
		return cmp.Or(cmp.Compare(last[b], last[a]), strings.Compare(a, b))
	})
	return names[:min(most, len(names))], errs
}

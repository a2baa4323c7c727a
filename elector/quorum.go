package elector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/inside"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/setting"
)

// Quorum is a set of independent Redis deployments of which a majority decides:
// one, three or five (an even number is refused, it would tolerate no more
// failures). One Quorum serves any number of Electors and Elections; it keeps a
// few connections and one subscription per node. Safe for concurrent use.
type Quorum struct {
	nodes  *quorum.Nodes
	bus    *pubsub.Bus
	owned  []redis.UniversalClient // only the options were needed
	prefix string                  // of every key; "": the default one
}

const defaultPrefix = "mandate"

// Package doctor examines the nodes themselves.
var _ = inside.Provide(func(q any) *quorum.Nodes {
	if q, ok := q.(*Quorum); ok && q != nil {
		return q.nodes
	}
	return nil
})

// NewQuorum makes a Quorum from go-redis clients: *redis.Client (single server,
// or Sentinel by redis.NewFailoverClient) or *redis.ClusterClient. It derives
// connections of its own from their options (hooks are not taken over), does no
// I/O, and leaves the clients to the caller.
func NewQuorum(clients ...redis.UniversalClient) (*Quorum, error) {
	nodes, err := quorum.Open(clients)
	if err != nil {
		return nil, configError("quorum: ", err)
	}
	return &Quorum{nodes: nodes, bus: pubsub.New(nodes)}, nil
}

// Open makes a Quorum from URLs, one per independent deployment. It does no I/O, but
// to read the files that are named.
//
//	redis://[user:password@]host:6379[/db]     rediss:// for TLS, unix:///path
//	redis+sentinel://host:26379?master_name=m  one of the sentinels, more as &addr=
//	redis+cluster://host:6379                  one of the nodes, more as &addr=
//
// These parameters name files, which each new connection reads again, so that they can
// be rotated under a running election; options of go-redis may follow too.
//
//	?password_file=/path   the password, in place of the one in the URL
//	&ca_file=/path         of the server's certificate, in place of the machine's roots
//	&cert_file=/path&key_file=/path  the client's certificate
//
// go-redis itself prints connections that fail to stderr, for the whole process,
// beside what the Elector logs. Its redis.SetLogger sends that elsewhere (to
// anything with Printf(ctx context.Context, format string, v ...any)), and Disable
// of its package logging silences it.
func Open(urls ...string) (*Quorum, error) {
	var clients []redis.UniversalClient
	var problems []error
	for i, u := range urls {
		c, err := clientOf(u)
		if err != nil {
			problems = append(problems, setting.Errorf(fmt.Sprintf("URL %d", i+1), ": %w", err))
			continue
		}
		clients = append(clients, c)
	}
	if err := configError("quorum: ", problems...); err != nil {
		closeAll(clients)
		return nil, err
	}
	q, err := NewQuorum(clients...)
	if err != nil {
		closeAll(clients)
		return nil, err
	}
	q.owned = clients
	return q, nil
}

// clientOf never repeats the URL in an error: it may hold a password.
func clientOf(raw string) (redis.UniversalClient, error) {
	u, err := url.Parse(raw)
	if err != nil || u.User == nil && strings.Contains(raw, "@") {
		// The parser's own words may quote a part of the password.
		return nil, errors.New("not a URL: write redis://[user:password@]host:port, " +
			"with special characters of user and password percent-encoded (# is %23, / is %2F, ? is %3F)")
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+")
	bad := func(err error) error { return fmt.Errorf("%s://%s: %w", u.Scheme, u.Host, err) }
	d, err := openDoor(u)
	if err != nil {
		return nil, bad(err)
	}
	if d != (door{}) {
		raw = u.String()
	}
	plain := scheme + strings.TrimPrefix(raw, u.Scheme)
	switch {
	case kind == "sentinel" && (scheme == "redis" || scheme == "rediss"):
		o, err := redis.ParseFailoverURL(plain)
		if err != nil {
			return nil, bad(err)
		}
		if o.MasterName == "" {
			return nil, bad(errors.New("?master_name= is missing"))
		}
		return d.failover(o), nil
	case kind == "cluster" && (scheme == "redis" || scheme == "rediss"):
		o, err := redis.ParseClusterURL(plain)
		if err != nil {
			return nil, bad(err)
		}
		return d.cluster(o), nil
	case slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme):
		o, err := redis.ParseURL(raw)
		if err != nil {
			return nil, bad(err)
		}
		return d.single(o), nil
	case u.Scheme == "" || u.Host == "":
		return nil, errors.New("not a Redis URL: write redis://[user:password@]host:port")
	default:
		return nil, fmt.Errorf("scheme %q is not known: use redis, rediss, unix, redis+sentinel or redis+cluster", u.Scheme)
	}
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

// Namespace is the same Quorum with elections of its own: the first part of
// their keys is prefix, where it is "mandate" by default. It shares the nodes and
// the connections, and closing either closes both. A prefix with spaces or
// braces, or longer than 200 bytes, is refused by what is made with it; an empty one
// is the default.
//
//	orders, err := q.Namespace("team-a").Election("orders")
func (q *Quorum) Namespace(prefix string) *Quorum {
	return &Quorum{nodes: q.nodes, bus: q.bus, owned: q.owned, prefix: cmp.Or(prefix, defaultPrefix)}
}

// Prefix is the first part of the keys of all elections that are made on this Quorum.
func (q *Quorum) Prefix() string { return cmp.Or(q.prefix, defaultPrefix) }

// Election is the election of that name, for whoever looks at it or steers it
// without being a candidate. It does no I/O, and an election that nobody has ever
// begun is no error. The name is the candidates' Config.Election.
func (q *Quorum) Election(name string) (*Election, error) {
	prefix := q.Prefix()
	err := configError("", quorum.CheckWord("Prefix", prefix, quorum.MaxName, "{}"), quorum.CheckWord("Election", name, quorum.MaxName, "{}"))
	if err != nil {
		return nil, err
	}
	return &Election{nodes: q.nodes, bus: q.bus, name: name, keys: quorum.KeysOf(prefix, name)}, nil
}

// maxElections bounds what Elections returns.
const maxElections = 10_000

// Elections lists the elections of the Quorum's prefix (Namespace), also those that have
// no candidate any more: Redis keeps their counters. It looks at every key of every node
// (SCAN; with Cluster, of every master), for at most 1.5 s or until ctx ends,
// and stops at 10,000.
//
// The error is ErrUnreachable when no majority of the nodes could be read and
// nothing was found; any other one says why something may be missing from what
// is returned with it.
func (q *Quorum) Elections(ctx context.Context) ([]string, error) {
	prefix := q.Prefix()
	if err := configError("", quorum.CheckWord("Prefix", prefix, quorum.MaxName, "{}")); err != nil {
		return nil, err
	}
	if err := checkOpen(q.nodes); err != nil {
		return nil, err
	}
	names, errs := q.nodes.Elections(ctx, prefix, maxElections, statusTimeout)
	if errors.Join(errs...) == nil {
		return names, nil
	}
	answers := 0
	for _, e := range errs {
		if e == nil {
			answers++
		}
	}
	if answers < q.nodes.Majority() && len(names) == 0 {
		return nil, noMajority(q.nodes, errs)
	}
	return names, &QuorumError{Problem: "the list may be incomplete", Nodes: nodeErrors(errs)}
}

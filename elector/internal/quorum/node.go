// Package quorum turns n independent Redis deployments into one voting store:
// claim, renew, release and announce. A single Redis is a quorum of
// one, not a second implementation: its vote is the decision. Claims on several are decided
// by redsync, of which this package is the only importer.
//
// A request passes, from top to bottom:
//
//	Voter, Release   what one election asks of a round, and the arguments (voter.go, release.go)
//	round            queries all nodes at once, and ends with a majority and a short wait for the others
//	nodeQueue        one request of an election at a time, in order: a release follows its renewal
//	recorder         one report of an election at a time, in order, beside those: reports delay no renewal (report.go)
//	transport        the requests of all elections of the process to a node; those that meet travel together
//	conns            a connection, made outside of the request's time
//
// What the scripts are told and answer is in package protocol; what is read or changed without a vote, in
// package registry.
package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/mandate-dev/mandate/elector/internal/conns"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/setting"
	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// Bounds of our own connections. Each call has a tighter one of its own, from
// the lease; these are for what happens outside of a call: to dial (TLS needs up to three
// round trips), and for each answer on the way.
const (
	stepTimeout = 2 * time.Second
	bufferSize  = 4 << 10 // our messages are small, and there may be many clients
	// writeBuffer holds a third of a full batch: each part that is sent wakes the server.
	writeBuffer = 16 << 10
)

// ofSentinel is go-redis' own name for "query the sentinels".
const ofSentinel = "FailoverClient"

// BySentinel reports whether a client asks sentinels for the address of its server.
func BySentinel(c *redis.Client) bool { return c.Options().Addr == ofSentinel }

// Node is one voting Redis deployment.
type Node struct {
	Name   string
	rdb    redis.UniversalClient // its requests go through kept, its subscriptions don't
	kept   kept
	sender *transport.Sender

	counts   transport.Joint[string, int]       // subscribers, by channel
	requests transport.Joint[message, struct{}] // of candidates
}

// Client sends requests over connections of our own. It is not the caller's to close.
func (n *Node) Client() redis.UniversalClient { return n.rdb }

// kept are the connections of a node for requests, by server: of a Cluster's client one
// pool for each of its servers.
type kept struct {
	mu    sync.Mutex
	pools []*conns.Pool
}

// by has the requests of a client go out over connections that are made outside of
// their time.
func (k *kept) by(c *redis.Client, ofCluster bool) *redis.Client {
	p := conns.New(c.Options(), BySentinel(c))
	c.AddHook(conns.Hook{Pool: p, OwnPipelines: ofCluster})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pools = append(k.pools, p)
	return c
}

func (k *kept) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pools {
		p.Close()
	}
}

// Nodes is the set of all voters, shared by any number of elections. Safe for
// concurrent use.
type Nodes struct {
	list    []*Node
	senders []*transport.Sender // of the nodes, in their order
	opened  time.Time
	once    sync.Once
	life    context.Context // ends with Close
	close   context.CancelFunc

	rounds sync.Pool // posted rounds that have ended, to be used again
}

// Open derives connections of our own from each client, so that neither a slow
// default nor an exhausted pool of the application can cost a leadership. It
// does no I/O. The clients stay the caller's and may be closed.
func Open(clients []redis.UniversalClient) (*Nodes, error) {
	var problems []error
	if n := len(clients); n == 0 {
		problems = append(problems, errors.New("no Redis given: name 1, 3 or 5 independent deployments"))
	} else if n%2 == 0 {
		problems = append(problems, fmt.Errorf("%d Redis deployments given, an even number: they tolerate no more failures than %d would, "+
			"and can split the vote: use %d or %d", n, n-1, n-1, n+1))
	}
	ns := &Nodes{opened: time.Now()}
	ns.life, ns.close = context.WithCancel(context.Background())
	seen := map[string]bool{}
	for i, c := range clients {
		n, err := derive(i+1, c)
		if err != nil {
			problems = append(problems, setting.Errorf(fmt.Sprintf("client %d", i+1), ": %w", err))
			continue
		}
		ns.list, ns.senders = append(ns.list, n), append(ns.senders, n.sender)
		if seen[n.Name] || slices.Contains(clients[:i], c) {
			problems = append(problems, fmt.Errorf("%s is listed twice: each vote needs its own Redis", n.Name))
		}
		seen[n.Name] = true
	}
	if err := checkRedsync(); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		ns.Close()
		return nil, errors.Join(problems...)
	}
	return ns, nil
}

// Len is the number of nodes, Majority how many of them decide.
func (ns *Nodes) Len() int { return len(ns.list) }

// Majority is how many nodes must agree.
func (ns *Nodes) Majority() int { return len(ns.list)/2 + 1 }

// All are the nodes, in their order.
func (ns *Nodes) All() []*Node { return ns.list }

// Names lists the nodes as they are called in errors and logs.
func (ns *Nodes) Names() []string {
	names := make([]string, len(ns.list))
	for i, n := range ns.list {
		names[i] = n.Name
	}
	return names
}

// Life ends with Close.
func (ns *Nodes) Life() context.Context { return ns.life }

// Close ends the connections. Safe to call twice.
func (ns *Nodes) Close() {
	ns.once.Do(func() {
		ns.close()
		for _, n := range ns.list {
			_ = n.rdb.Close() // no new server of a Cluster from here on
			n.kept.close()
		}
	})
}

// Subscription is a connection to a node that waits for messages, of no channel yet.
// It is the caller's to close.
func (ns *Nodes) Subscription(node int) *redis.PubSub {
	return ns.list[node].rdb.Subscribe(context.Background())
}

// channelPattern is a channel as an ACL grants it: where answers arrive is random.
func channelPattern(channel string) string {
	election, kind, _ := strings.Cut(channel, "}:")
	if kind, _, answers := strings.Cut(kind, ":"); answers {
		return election + "}:" + kind + ":*"
	}
	return channel
}

// SubscriptionError is why a node does not send the messages of a channel.
func (ns *Nodes) SubscriptionError(node int, channel string, err error) error {
	return ns.NodeError(node, rediserr.Needs(err, "+subscribe &"+channelPattern(channel)))
}

func derive(number int, c redis.UniversalClient) (*Node, error) {
	n := &Node{}
	switch c := c.(type) {
	case *redis.Client:
		if c == nil {
			return nil, errors.New("it is nil")
		}
		o := *c.Options()
		own(&o)
		n.Name = o.Addr
		if o.Addr == ofSentinel {
			n.Name = fmt.Sprintf("sentinel-managed Redis %d", number)
		}
		n.rdb = n.kept.by(redis.NewClient(&o), false)
	case *redis.ClusterClient:
		if c == nil {
			return nil, errors.New("it is nil")
		}
		o := *c.Options()
		ownCluster(&o)
		makes := o.NewClient
		o.NewClient = func(o *redis.Options) *redis.Client { return n.kept.by(makes(o), true) }
		addrs := slices.Sorted(slices.Values(o.Addrs))
		n.Name = fmt.Sprintf("cluster %v", addrs)
		rdb := redis.NewClusterClient(&o)
		transport.KeepSlotsFresh(rdb)
		n.rdb = rdb
	case nil:
		return nil, errors.New("it is nil")
	default:
		return nil, fmt.Errorf("a %T can't be used: give a *redis.Client (single, Sentinel) or *redis.ClusterClient", c)
	}
	n.sender = transport.NewSender(n.rdb)
	n.counts.Send, n.requests.Send = counting(n.rdb), publishing(n.rdb)
	return n, nil
}

// noMaintenance also names an endpoint type: until 9.23 go-redis looks up the host's
// name for it, which waits for DNS before the first request, although it is disabled.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone}
}

// own makes options fit for an election: no hidden retries (a claim whose reply
// was lost must not be sent again behind our back), time-outs that are obeyed,
// and no chatter on connecting.
func own(o *redis.Options) {
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout = within(o.DialTimeout)
	o.ReadTimeout = within(o.ReadTimeout)
	o.WriteTimeout = within(o.WriteTimeout)
	o.PoolTimeout = stepTimeout
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = noMaintenance()
	o.ReadBufferSize, o.WriteBufferSize = bufferSize, writeBuffer
	o.MinIdleConns, o.MaxActiveConns, o.Limiter = 0, 0, nil
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
}

func ownCluster(o *redis.ClusterOptions) {
	// A Cluster client needs its redirects to find the slot; they are answers
	// of a node that did not execute the command.
	o.MaxRetries, o.DialerRetries = -1, 1
	if o.MaxRedirects == 0 {
		o.MaxRedirects = 3
	}
	o.DialTimeout = within(o.DialTimeout)
	o.ReadTimeout = within(o.ReadTimeout)
	o.WriteTimeout = within(o.WriteTimeout)
	o.PoolTimeout = stepTimeout
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = noMaintenance()
	o.ReadBufferSize, o.WriteBufferSize = bufferSize, writeBuffer
	o.MinIdleConns, o.MaxActiveConns = 0, 0
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
}

func within(d time.Duration) time.Duration {
	if d <= 0 || d > stepTimeout {
		return stepTimeout
	}
	return d
}

// NodeError is an error of a node, with its name; nil stays nil.
func (ns *Nodes) NodeError(i int, err error) error {
	if err == nil {
		return nil
	}
	e := &rediserr.NodeError{Node: ns.list[i].Name, Err: err}
	if rediserr.Denied(err) {
		e.User = rediserr.UserOf(ns.list[i].rdb)
	}
	return e
}

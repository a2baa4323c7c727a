// Package nodes connects to the independent Redis deployments that vote, and sends them what the elections of the process
// request. It knows no votes: package quorum counts the answers.
//
//	Node.Send   requests of elections, by script; those that meet share a call (send.go)
//	Node.Do     plain commands, which share connections and round trips likewise (commands.go)
//	Ask         reads all nodes, until enough have answered (ask.go)
//	Each, On    read and change them with commands of their own (each.go)
//
// Package protocol defines the scripts, their arguments and answers.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/mandate-dev/mandate/elector/internal/access"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/setting"
)

// Bounds of our own connections. Each call has a tighter time-out, derived from the
// lease; StepTimeout is for what happens outside of a call: dialing (TLS needs up to
// three round trips), and each answer on the way.
const (
	StepTimeout = 2 * time.Second
	bufferSize  = 4 << 10 // our messages are small, and there may be many clients
	// maxIdle is how many connections are kept that no request uses. When all connections are lost in
	// silence, as behind a firewall that forgot them, each idle one would cost the next request its
	// time-out before go-redis makes a new one.
	maxIdle = 1
	// poolSize is more than are ever in use: after that many dials that failed in a row, go-redis
	// itself only looks once a second whether the server is back.
	poolSize = 1000
)

// ofSentinel is the address that go-redis gives to clients that find their server by Sentinel.
const ofSentinel = "FailoverClient"

// BySentinel reports whether a client queries sentinels for the address of its server.
func BySentinel(c *redis.Client) bool { return c.Options().Addr == ofSentinel }

// Node is one voting Redis deployment.
type Node struct {
	Name string
	rdb  redis.UniversalClient

	tls      bool
	received atomic.Bool // something was received, or a TLS handshake succeeded

	commands *commands                 // that need no vote
	silent   atomic.Pointer[time.Time] // when Ask waited for it in vain; nil: it answers
	open     *leaving                  // the connections

	checked atomic.Pointer[time.Time] // when CheckDue last returned true; nil: never
	several atomic.Pointer[several]   // nil: its address was never seen to lead to several servers

	answered atomic.Pointer[answered] // the last one; nil: none

	apart  atomic.Bool // it refused keys of several elections in one call
	mu     sync.Mutex  // guards queues
	queues map[queueOf]*queue[*Request]
}

// Client returns the client for requests, which uses our own connections. Callers must not close it.
func (n *Node) Client() redis.UniversalClient { return n.rdb }

// Nodes is the set of all nodes, shared by any number of elections. It is safe for
// concurrent use.
type Nodes struct {
	list  []*Node
	once  sync.Once
	life  context.Context // ends with Close
	close context.CancelFunc

	users  Flights // the Runs that may have something to release
	load   *load
	closed atomic.Bool // the connections are
}

// Open derives our own connections from each client, so that neither a slow default
// nor an exhausted pool of the application can end a term. It does no I/O. The
// caller keeps the clients and may close them.
func Open(clients []redis.UniversalClient) (*Nodes, error) {
	var problems []error
	if n := len(clients); n == 0 {
		problems = append(problems, errors.New("no Redis given: name 1, 3 or 5 independent deployments"))
	} else if n%2 == 0 {
		problems = append(problems, fmt.Errorf("%d Redis deployments given, an even number: they tolerate no more failures than %d would, "+
			"and can split the vote: use %d or %d", n, n-1, n-1, n+1))
	}
	ns := &Nodes{load: newLoad()}
	ns.life, ns.close = context.WithCancel(context.Background())
	seen := map[string]bool{}
	for i, c := range clients {
		n, err := derive(i+1, c)
		if err != nil {
			problems = append(problems, setting.Errorf(fmt.Sprintf("client %d", i+1), ": %w", err))
			continue
		}
		ns.list = append(ns.list, n)
		if seen[n.Name] || slices.Contains(clients[:i], c) {
			problems = append(problems, fmt.Errorf("%s is listed twice: each vote needs its own Redis", n.Name))
		}
		seen[n.Name] = true
	}
	if len(problems) > 0 {
		ns.Close()
		return nil, errors.Join(problems...)
	}
	return ns, nil
}

// Len returns the number of nodes.
func (ns *Nodes) Len() int { return len(ns.list) }

// Majority returns how many nodes must agree.
func (ns *Nodes) Majority() int { return protocol.Majority(len(ns.list)) }

// All returns the nodes, in their order.
func (ns *Nodes) All() []*Node { return ns.list }

// Names returns the names of the nodes in errors and logs.
func (ns *Nodes) Names() []string {
	names := make([]string, len(ns.list))
	for i, n := range ns.list {
		names[i] = n.Name
	}
	return names
}

// Database returns which database of the servers the elections are in: "" for number 0, else the number; if
// they differ, all numbers, in order.
func (ns *Nodes) Database() string {
	var all []string
	for _, n := range ns.list {
		number := 0
		if c, ok := n.rdb.(*redis.Client); ok {
			number = c.Options().DB
		}
		all = append(all, strconv.Itoa(number))
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) == 1 && all[0] == "0" {
		return ""
	}
	return strings.Join(all, ",")
}

// Life returns a context that ends with Close.
func (ns *Nodes) Life() context.Context { return ns.life }

// Use makes Close wait for a user until that calls done.
func (ns *Nodes) Use() (done func()) { return ns.users.Begin() }

// Closed reports whether the connections are closed: no request can be sent any more.
func (ns *Nodes) Closed() bool { return ns.closed.Load() }

// closeTimeout is how long Close waits for the users: each has a request or two to send once its work has
// returned.
const closeTimeout = 2 * time.Second

// Close ends Life, waits for the users, at most closeTimeout, and closes the connections. It is safe to
// call twice.
func (ns *Nodes) Close() {
	ns.once.Do(func() {
		ns.close()
		ns.users.Wait(closeTimeout)
		ns.closed.Store(true)
		for _, n := range ns.list {
			n.open.end()
			_ = n.rdb.Close()
		}
	})
}

// Cluster reports whether a node is a Redis Cluster, whose servers pass on messages to each other: each counts only its
// own subscribers.
func (ns *Nodes) Cluster(node int) bool {
	_, is := ns.list[node].rdb.(*redis.ClusterClient)
	return is
}

// Subscription returns a subscription to a node, without any channel yet. The caller
// must close it.
func (ns *Nodes) Subscription(node int) *redis.PubSub {
	return ns.list[node].rdb.Subscribe(context.Background())
}

// channelPattern returns the pattern with which an ACL grants a channel: the names of channels for
// answers end in random letters.
func channelPattern(channel string) string {
	election, kind, _ := strings.Cut(channel, "}:")
	if kind, _, answers := strings.Cut(kind, ":"); answers {
		return election + "}:" + kind + ":*"
	}
	return channel
}

// SubscriptionError returns err, why a node does not send the messages of a channel, with the node's
// name and the right that was missing.
func (ns *Nodes) SubscriptionError(node int, channel string, err error) error {
	return ns.NodeError(node, rediserr.Needs(err, "+subscribe &"+channelPattern(channel)))
}

func derive(number int, c redis.UniversalClient) (*Node, error) {
	n := &Node{queues: map[queueOf]*queue[*Request]{}, open: &leaving{open: map[*connection]bool{}}}
	n.open.life, n.open.end = context.WithCancel(context.Background())
	switch c := c.(type) {
	case *redis.Client:
		if c == nil {
			return nil, errors.New("it is nil")
		}
		o := *c.Options()
		n.own(&o)
		n.tls = o.TLSConfig != nil
		n.Name = o.Addr
		if BySentinel(c) {
			n.open.sentinel = true
			n.Name = fmt.Sprintf("sentinel-managed Redis %d", number)
		}
		n.open.dial, o.Dialer = o.Dialer, n.open.connect
		n.rdb = redis.NewClient(&o)
	case *redis.ClusterClient:
		if c == nil {
			return nil, errors.New("it is nil")
		}
		o := *c.Options()
		if len(o.Addrs) == 0 { // nor does it learn of a failover as the client of a Sentinel does
			return nil, errors.New("it is a *redis.ClusterClient without addresses, as redis.NewUniversalClient makes of Sentinel with RouteByLatency, " +
				"RouteRandomly or IsClusterMode: leave these out, or use redis.NewFailoverClient, since all requests must go to the master")
		}
		n.ownCluster(&o)
		addrs := slices.Sorted(slices.Values(o.Addrs))
		n.Name = fmt.Sprintf("cluster %v", addrs)
		rdb := redis.NewClusterClient(&o)
		rdb.AddHook(hook(func(ctx context.Context, _ redis.Cmder, err error) error {
			slotMap{rdb}.learn(ctx, err)
			return err
		}))
		n.rdb = rdb
	case nil:
		return nil, errors.New("it is nil")
	default:
		return nil, fmt.Errorf("a %T can't be used: give a *redis.Client (single, Sentinel) or *redis.ClusterClient", c)
	}
	n.commands = newCommands(n)
	return n, nil
}

// NoMaintenance disables maintenance notifications, for which a client keeps two goroutines and a buffer, and sends a command
// on each connection.
func NoMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// own adapts options to an election: no hidden retries (go-redis must not repeat a
// claim whose reply was lost), time-outs that are obeyed, and no extra commands on
// connecting.
func (n *Node) own(o *redis.Options) {
	o.MaxRetries, o.DialerRetries = -1, 1
	o.DialTimeout = within(o.DialTimeout)
	o.ReadTimeout = within(o.ReadTimeout)
	o.WriteTimeout = within(o.WriteTimeout)
	o.PoolTimeout = StepTimeout
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.MaintNotificationsConfig = NoMaintenance()
	o.ReadBufferSize, o.WriteBufferSize = bufferSize, bufferSize
	o.MinIdleConns, o.MaxActiveConns, o.Limiter = 0, 0, nil
	o.MaxIdleConns, o.PoolSize, o.MaxConcurrentDials, o.PipelinePoolSize = maxIdle, poolSize, poolSize, -1
	o.ConnMaxIdleTime = -1
	if ofGoRedis(o.Dialer) {
		o.Dialer = access.Files{}.Dialer(o.TLSConfig)
	}
	o.Dialer = n.explaining(o.Dialer)
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
}

// ownCluster does the same for the clients of all nodes of a Cluster.
func (n *Node) ownCluster(o *redis.ClusterOptions) {
	// A Cluster client needs redirects to find the slot. A server that redirects
	// has not executed the command.
	o.MaxRetries = -1
	if o.MaxRedirects == 0 {
		o.MaxRedirects = 3
	}
	o.MaintNotificationsConfig = NoMaintenance()
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false
	n.tls = o.TLSConfig != nil
	makes := o.NewClient
	o.NewClient = func(o *redis.Options) *redis.Client {
		n.own(o)
		return OfCluster(makes(o))
	}
}

func within(d time.Duration) time.Duration {
	if d <= 0 || d > StepTimeout {
		return StepTimeout
	}
	return d
}

// NodeError returns err as the error of a node, with the node's name; nil stays nil.
func (ns *Nodes) NodeError(i int, err error) error {
	if err == nil {
		return nil
	}
	n := ns.list[i]
	e := &rediserr.NodeError{Node: n.Name, TLS: n.tls, Silent: !n.received.Load(), Err: err}
	if rediserr.Denied(err) {
		e.User = rediserr.UserOf(n.rdb)
	}
	return e
}

// Flights counts what is under way. Unlike a sync.WaitGroup, it can be waited
// for with a time-out, and continues counting meanwhile.
type Flights struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n becomes 0; nil unless a goroutine waits for that
}

// Begin counts one more, until end is called.
func (f *Flights) Begin() (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return f.end
}

func (f *Flights) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.zero != nil {
		close(f.zero)
		f.zero = nil
	}
}

// Count returns how many are under way.
func (f *Flights) Count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// Go runs fn on a goroutine that is counted.
func (f *Flights) Go(fn func()) {
	end := f.Begin()
	go func() {
		defer end()
		fn()
	}()
}

// Wait blocks until nothing is under way, for at most d.
func (f *Flights) Wait(d time.Duration) {
	f.mu.Lock()
	if f.n == 0 {
		f.mu.Unlock()
		return
	}
	if f.zero == nil {
		f.zero = make(chan struct{})
	}
	zero := f.zero
	f.mu.Unlock()
	select {
	case <-zero:
	case <-time.After(d):
	}
}

package elector

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Quorum is a set of independent Redis deployments of which a majority decides:
// one, three or five (an even number is refused, it would tolerate no more
// failures). One Quorum serves any number of Electors; it keeps a few
// connections and one subscription per node. Safe for concurrent use.
type Quorum struct {
	nodes *quorum.Nodes
	bus   *pubsub.Bus
	owned []redis.UniversalClient // only the options were needed
}

// NewQuorum makes a Quorum from go-redis clients: *redis.Client (single server,
// or Sentinel by redis.NewFailoverClient) or *redis.ClusterClient. It derives
// connections of its own from their options (hooks are not taken over), does no
// I/O, and leaves the clients to the caller.
func NewQuorum(clients ...redis.UniversalClient) (*Quorum, error) {
	nodes, err := quorum.Open(clients)
	if err != nil {
		return nil, fmt.Errorf("elector: quorum: %w", err)
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
			problems = append(problems, fmt.Errorf("URL %d: %w", i+1, err))
			continue
		}
		clients = append(clients, c)
	}
	if err := errors.Join(problems...); err != nil {
		closeAll(clients)
		return nil, fmt.Errorf("elector: quorum: %w", err)
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

// Close ends all connections and subscriptions. Close it after the Electors on
// it have returned; requests that are still under way are cut off.
func (q *Quorum) Close() error {
	q.bus.Close()
	q.nodes.Close()
	closeAll(q.owned)
	return nil
}

// Size is the number of nodes.
func (q *Quorum) Size() int { return q.nodes.Len() }

// Status is what the nodes say of an election at one moment.
type Status struct {
	Election string  `json:"election"`
	Leader   *Leader `json:"leader"` // nil: nobody leads
	Paused   bool    `json:"paused"` // nobody new is elected
	// Pause is why, and PauseLeft for how long still (zero: until it is resumed).
	Pause     string        `json:"pause,omitempty"`
	PauseLeft time.Duration `json:"pause_left_ns,omitempty"`
	Nodes     []NodeStatus  `json:"nodes"`
	// Blocked is set when nobody can be elected until somebody removes what the lock key
	// holds on so many nodes that no majority is left: no candidate wrote it.
	Blocked string `json:"blocked,omitempty"`
	// Conflict is set when nodes are held by candidates that vote with different nodes:
	// there may be two leaders.
	Conflict string `json:"conflict,omitempty"`

	// mayLead is the incarnation that leads if the nodes which did not answer hold its
	// lock, as others do; empty: there is none.
	mayLead string
}

// Leader is who leads.
type Leader struct {
	Candidate   string        `json:"candidate"`
	Incarnation string        `json:"incarnation,omitempty"` // random per Elector: tells two processes of one id apart
	Advertise   string        `json:"advertise,omitempty"`
	Token       uint64        `json:"token"`
	LeaseLeft   time.Duration `json:"lease_left_ns"`            // until the lease ends unless it is renewed
	Since       time.Time     `json:"since,omitempty,omitzero"` // by the leader's clock; zero when the history does not tell

	attempt string // names the term apart from its token

	agreed bool   // all nodes name one token; until the first renewal they may not
	lowest uint64 // that a node names
}

// NodeStatus is what one node says.
type NodeStatus struct {
	Node      string        `json:"node"`
	Reachable bool          `json:"reachable"`        // it told what it knows
	Denied    bool          `json:"denied,omitempty"` // it refused to, for want of a right
	Error     string        `json:"error,omitempty"`
	Holder    string        `json:"holder,omitempty"`  // the candidate that holds this node's lock
	Foreign   string        `json:"foreign,omitempty"` // what the lock key holds, where no candidate wrote it; the node can't vote
	LeaseLeft time.Duration `json:"lease_left_ns,omitempty"`
	Fence     uint64        `json:"fence"`                 // the highest token that this node knows
	Abstains  time.Duration `json:"abstains_ns,omitempty"` // the node is new or forgot: no vote for so long
	RTT       time.Duration `json:"rtt_ns"`
}

// statusTimeout bounds Status when the caller's context does not.
const statusTimeout = 1500 * time.Millisecond

// Status asks every node about an election, and waits for each at most 1.5 s
// (or until ctx ends). Once a majority agrees, it waits for the others only for
// four times as long as that took, at least 250 ms: a node that hangs is then
// reported as unreachable. When the term began is looked up after that, for at
// most 0.5 s. An empty prefix means "mandate". The error is
// ErrUnreachable, with each node's trouble, when no majority answered (and
// ErrDenied, when what they lack is a right); the Status is then as complete as it
// can be. The rights to read suffice.
func (q *Quorum) Status(ctx context.Context, prefix, election string) (Status, error) {
	s, err := q.steering(prefix, election)
	if err != nil {
		return Status{}, err
	}
	st, err := q.look(ctx, s.keys, election)
	if err == nil && st.Leader != nil {
		asked := time.Now()
		st.Leader.Since = q.since(ctx, s.keys, st.Leader.Token)
		st.Leader.LeaseLeft = max(0, st.Leader.LeaseLeft-time.Since(asked))
	}
	return st, err
}

// look is Status without the history: one request per node.
func (q *Quorum) look(ctx context.Context, keys quorum.Keys, election string) (Status, error) {
	views := q.nodes.Read(ctx, keys, statusTimeout)
	st, troubles := summarize(election, keys, views, q.nodes.Majority())
	if len(views)-len(troubles) < q.nodes.Majority() {
		return st, q.noMajority(troubles)
	}
	return st, nil
}

// noMajority is the error of a request that no majority of the nodes has met: what
// those that failed said. Nodes that refuse it for want of a right are not away, and
// no restart helps.
func (q *Quorum) noMajority(errs []error) error {
	denied := 0
	for _, err := range errs {
		if quorum.Denied(err) {
			denied++
		}
	}
	if len(errs) == 0 || q.nodes.Len()-denied >= q.nodes.Majority() {
		return fmt.Errorf("%w: %w", ErrUnreachable, errors.Join(errs...))
	}
	return &deniedError{errors.Join(errs...)}
}

// since looks the term's begin up in the history.
func (q *Quorum) since(ctx context.Context, keys quorum.Keys, token uint64) time.Time {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout/3)
	defer cancel()
	var begun time.Time // best effort: the history may be trimmed, or not be permitted
	q.nodes.Find(ctx, keys, 10, func(entry string) bool {
		ev, err := ParseEvent(entry)
		if err != nil || ev.Kind != EventElected || ev.Token != token {
			return false
		}
		begun = ev.Time
		return true
	})
	return begun
}

func summarize(election string, keys quorum.Keys, views []quorum.View, majority int) (Status, []error) {
	st := Status{Election: election}
	var troubles []error
	var holders []string
	paused, foreign := 0, 0
	for _, v := range views {
		n := NodeStatus{Node: v.Node, Reachable: v.Err == nil, LeaseLeft: v.Left, Fence: v.Fence, Abstains: v.Newcomer, RTT: v.RTT}
		if v.Err != nil {
			n.Error, n.Denied = v.Err.Error(), quorum.Denied(v.Err)
			troubles = append(troubles, v.Err)
		}
		if v.Holder != "" {
			if b, err := quorum.ParseBallot(v.Holder); err == nil {
				n.Holder = b.Candidate
			}
			holders = append(holders, v.Holder)
		}
		if n.Foreign = v.Foreign; n.Foreign != "" {
			foreign++
			if st.Blocked == "" {
				st.Blocked = fmt.Sprintf("%s holds %s, which no candidate wrote", keys.Lock, v.Foreign)
			}
		}
		if v.Paused {
			paused++
			st.Pause, st.PauseLeft = v.Pause, max(st.PauseLeft, v.PauseLeft)
		}
		st.Nodes = append(st.Nodes, n)
	}
	if st.Paused = paused >= majority; !st.Paused {
		st.Pause, st.PauseLeft = "", 0
	}
	if len(views)-foreign >= majority {
		st.Blocked = ""
	}
	st.Conflict = conflict(holders)
	if in, ok := quorum.IncumbentOf(holders, majority); ok {
		st.Leader = &Leader{
			Candidate: in.Candidate, Incarnation: in.Incarnation, Advertise: in.Advertise, Token: in.Token,
			LeaseLeft: leftOf(in, views, majority), agreed: in.Agreed, lowest: in.Lowest, attempt: in.Attempt,
		}
	} else if missing := len(troubles); missing > 0 && missing < majority {
		if in, ok := quorum.IncumbentOf(holders, majority-missing); ok {
			st.mayLead = in.Incarnation
		}
	}
	return st, troubles
}

// leftOf is how long a majority of the nodes still holds the incumbent's lock.
func leftOf(in quorum.Incumbent, views []quorum.View, majority int) time.Duration {
	var all []time.Duration
	for _, v := range views {
		if in.Holds(v.Holder) {
			all = append(all, v.Left)
		}
	}
	slices.Sort(all)
	return all[len(all)-majority]
}

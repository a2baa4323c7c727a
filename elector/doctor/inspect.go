package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// facts is what inspect has found out about one node. Each part has its own error: a
// Redis that refuses one query may still answer the others.
type facts struct {
	Node        string
	Cluster     bool // reached as a Redis Cluster; the facts are those of the election's master
	ViaSentinel bool // reached through Sentinel: it can fail over

	Ping    error
	RTT     time.Duration // the median of a few
	Skew    time.Duration // of the node's clock against ours; positive: it is ahead
	SkewErr error

	Info    map[string]string // of server, memory, persistence, replication, cluster
	InfoErr error
	Servers []string          // the different servers that new connections have led to
	Conf    map[string]string // the settings that matter here
	ConfErr error

	User      string   // the Redis user; empty: not known
	Refused   []string // refused commands, each as "COMMAND: reason"
	EvalErr   error
	LooksOnly bool // the user may read elections, but neither run scripts nor write

	Delivery   time.Duration // of a message, from publishing to receiving it
	ReceiveErr error
}

// settings are the server settings that inspect reads.
var settings = []string{"appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy", "timeout"}

// pings is how many round trips inspect measures.
const pings = 5

// inspect queries every node for what an election depends on, for at most limit. It writes
// two keys next to those of the election and removes them; for a user who may not run
// scripts, it writes one that expires.
func inspect(ctx context.Context, ns *nodes.Nodes, k protocol.Keys, limit time.Duration) []facts {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	all := make([]facts, ns.Len())
	var wg sync.WaitGroup
	for i, n := range ns.All() {
		wg.Go(func() {
			f := &all[i]
			f.Node = n.Name
			f.inspect(ctx, n, k)
			for _, err := range []*error{&f.Ping, &f.SkewErr, &f.InfoErr, &f.ConfErr, &f.EvalErr, &f.ReceiveErr} {
				*err = ns.NodeError(i, *err)
			}
		})
	}
	wg.Wait()
	return all
}

func (f *facts) inspect(ctx context.Context, n *nodes.Node, k protocol.Keys) {
	rdb := n.Client()
	one := rdb
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		f.Cluster = true
		m, err := c.MasterForKey(ctx, k.Lock)
		if err != nil {
			f.Ping = err
			return
		}
		one = m
	case *redis.Client:
		f.ViaSentinel = nodes.BySentinel(c)
	}
	if f.measure(ctx, one); f.Ping != nil {
		return
	}
	f.Info, f.InfoErr = info(ctx, one)
	f.Conf, f.ConfErr = conf(ctx, one)
	check := k.Check()
	f.User = rediserr.UserOf(rdb)
	script, keys := protocol.RightsScript, []string{check, check + "-stream", check + "-names", check + "-hash"}
	if f.Refused, f.EvalErr = script.Eval(ctx, rdb, keys, check).StringSlice(); f.EvalErr == nil { // a candidate needs both
		f.EvalErr = script.EvalSha(ctx, rdb, keys, check).Err()
	}
	if rediserr.Denied(f.EvalErr) {
		read, write := rdb.Get(ctx, check).Err(), rdb.Set(ctx, check+"-lock", "0", time.Second).Err() // an operator may write check
		if full := rdb.Set(ctx, check, "0", 100*time.Millisecond).Err(); full != nil && rediserr.Answered(full) && !rediserr.Denied(full) {
			f.Refused = []string{"SET: " + full.Error()}
		}
		f.LooksOnly = (read == nil || rediserr.Missing(read)) && rediserr.Denied(write) // TryWrite of another may have set it
		if rediserr.Denied(read) {
			f.EvalErr = read // this user is neither a candidate nor an operator
		}
	}
	f.Servers = servers(ctx, n, &k)
	f.checkReceiving(ctx, rdb, check) // last: it may take all the time there is
}

// measure sets RTT to the median, so that one busy moment does not distort it, and Skew
// from the fastest answer, which is the most exact.
func (f *facts) measure(ctx context.Context, c redis.UniversalClient) {
	sent := time.Now()
	if err := c.Ping(ctx).Err(); err != nil && !rediserr.Denied(err) { // a refusal comes as fast as a pong
		f.Ping = err
		return
	}
	took := []time.Duration{time.Since(sent) / 2} // the greeting was half of it; it counts where no other one is answered
	for i := range pings {
		sent := time.Now()
		err := c.Ping(ctx).Err()
		if rediserr.TimedOut(err) { // it is slow, and not down
			break
		}
		if err != nil && !rediserr.Denied(err) {
			f.Ping = err
			return
		}
		took = append(took[:i], time.Since(sent))
	}
	slices.Sort(took)
	f.RTT = took[len(took)/2]
	best := time.Hour
	for range pings {
		sent := time.Now()
		theirs, err := c.Time(ctx).Result()
		if err != nil {
			f.SkewErr = err
			return
		}
		if rtt := time.Since(sent); rtt < best {
			best, f.Skew = rtt, theirs.Sub(sent.Add(rtt/2))
		}
	}
}

// info reads all sections at once: servers before 7.0 take only one by name.
func info(ctx context.Context, c redis.UniversalClient) (map[string]string, error) {
	text, err := c.Info(ctx).Result()
	return infoFields(text), err
}

// servers returns the identities of the servers that new connections to a node lead to; where one has none, its run_id.
func servers(ctx context.Context, n *nodes.Node, k *protocol.Keys) (all []string) {
	seen := map[string]bool{}
	n.Reconnect(func(c *redis.Client) {
		fields, _ := info(ctx, c)
		id := protocol.ParseIdentity(c.Get(ctx, k.ID).Val())
		if same := cmp.Or(fields["run_id"], id); same != "" && !seen[same] {
			seen[same] = true
			all = append(all, cmp.Or(id, same))
		}
	})
	return all
}

func infoFields(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[k] = v
		}
	}
	return fields
}

func conf(ctx context.Context, c redis.UniversalClient) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range settings {
		got, err := c.ConfigGet(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		maps.Copy(all, got)
	}
	return all, nil
}

// checkReceiving publishes a message and waits until it receives it.
func (f *facts) checkReceiving(ctx context.Context, rdb redis.UniversalClient, channel string) {
	sub := rdb.Subscribe(ctx, channel)
	defer func() { _ = sub.Close() }()
	if _, f.ReceiveErr = sub.Receive(ctx); f.ReceiveErr != nil {
		return
	}
	sent := time.Now()
	if f.ReceiveErr = rdb.Publish(ctx, channel, "check").Err(); f.ReceiveErr != nil {
		return
	}
	_, f.ReceiveErr = sub.ReceiveMessage(ctx)
	f.Delivery = time.Since(sent)
	if errors.Is(f.ReceiveErr, context.DeadlineExceeded) {
		f.ReceiveErr = fmt.Errorf("what was published did not arrive: %w", f.ReceiveErr)
	}
}

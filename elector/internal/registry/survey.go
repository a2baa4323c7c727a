package registry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Recall reads the newest count events of the history stream from every node,
// newest first, and waits at most limit for each. The streams differ: reports are
// best effort, and a node may have been down.
func Recall(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, count int64, limit time.Duration) ([][]string, []error) {
	return recall(ctx, ns, k, count, limit, limit)
}

// RecallMajority is Recall for callers that can't wait for a node that hangs: once a majority has
// answered, the other nodes get quorum.WaitFactor times as long as that took.
func RecallMajority(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, count int64, limit time.Duration) ([][]string, []error) {
	return recall(ctx, ns, k, count, limit, quorum.MinExtraWait)
}

func recall(ctx context.Context, ns *quorum.Nodes, k protocol.Keys, count int64, limit, atLeast time.Duration) ([][]string, []error) {
	query := func(ctx context.Context, n *quorum.Node) ([]string, error) { return newest(ctx, n, k, count) }
	answers := ask(ctx, ns, limit, atLeast, query, func(all []answer[[]string]) bool {
		good := 0
		for _, a := range all {
			if a.err == nil {
				good++
			}
		}
		return good >= ns.Majority()
	})
	found, errs := make([][]string, len(answers)), make([]error, len(answers))
	for i, a := range answers {
		found[i], errs[i] = a.value, a.err
	}
	return found, errs
}

func newest(ctx context.Context, n *quorum.Node, k protocol.Keys, count int64) ([]string, error) {
	found, err := n.Client().XRevRangeN(ctx, k.History, "+", "-", count).Result()
	return entriesIn(found), rediserr.Needs(err, "+xrevrange %R~"+k.History)
}

func entriesIn(found []redis.XMessage) (entries []string) {
	for _, e := range found {
		if s, ok := e.Values["event"].(string); ok {
			entries = append(entries, s)
		}
	}
	return entries
}

// scanCount is how many keys Redis looks at per request: enough to get through
// a large key space, few enough not to block other users of the server.
const scanCount = 1000

// Elections lists the elections of a prefix that the nodes know, each once and in order. used are
// those with a lock, a pause, or candidates, which are found by their subscriptions to roll calls
// (an election whose candidates were never able to campaign has no key). idle are all others with a
// counter. Elections looks at every channel and every key of every node, for at most limit. If there
// are more than most elections, it leaves out idle ones: keys that are no longer used must not hide
// a leader. An error of a node means that some or all of its elections are missing.
func Elections(ctx context.Context, ns *quorum.Nodes, prefix string, most int, limit time.Duration) (used, idle []string, errs []error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s := &survey{prefix: prefix + protocol.OpenTag, database: ns.Database(), most: most, used: map[string]bool{}, idle: map[string]bool{}}
	errs = make([]error, ns.Len())
	left := make([]int, ns.Len())
	var wg sync.WaitGroup
	for i, n := range ns.All() {
		wg.Go(func() {
			if c, ok := n.Client().(*redis.ClusterClient); ok {
				errs[i] = ns.NodeError(i, c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return s.look(ctx, c, &left[i]) }))
				return
			}
			errs[i] = ns.NodeError(i, s.look(ctx, n.Client(), &left[i]))
		})
	}
	wg.Wait()
	used, idle = slices.Sorted(maps.Keys(s.used)), slices.Sorted(maps.Keys(s.idle))
	cut := max(0, len(used)+len(idle)-most)
	idle = idle[:len(idle)-min(cut, len(idle))]
	for i := range errs {
		if n := left[i] + cut; n > 0 && errs[i] == nil {
			errs[i] = ns.NodeError(i, fmt.Errorf("there are more than %d elections: %d that have no leader, no candidates and no pause are left out", most, n))
		}
	}
	return used, idle, errs
}

type survey struct {
	prefix   string // of the elections' keys and channels
	database string // to which their channels belong
	most     int    // the maximum number of used, and of idle, elections

	mu         sync.Mutex
	used, idle map[string]bool // no name is in both
}

// look scans the keys of a server, then its channels. It adds to left the number of idle elections
// that exceed the maximum.
func (s *survey) look(ctx context.Context, c redis.UniversalClient, left *int) error {
	return cmp.Or(s.scan(ctx, c, left), s.campaigned(ctx, c))
}

// campaigned notes the elections that have candidates: those for whose roll calls there is a
// subscriber. The server's own list of subscribers can't be forged, unlike a message.
func (s *survey) campaigned(ctx context.Context, c redis.UniversalClient) error {
	channels, err := c.PubSubChannels(ctx, literal(s.prefix)+"*"+protocol.CloseTag+protocol.RollName).Result()
	if err != nil {
		return rediserr.Needs(err, "+pubsub|channels")
	}
	var ours []string
	for _, channel := range channels {
		if name, ok := protocol.FromChannel(channel, s.database); ok {
			ours = append(ours, name)
		}
	}
	return s.noteUsed(ours, protocol.RollName)
}

func (s *survey) scan(ctx context.Context, c redis.UniversalClient, left *int) error {
	match := literal(s.prefix) + "*" + protocol.CloseTag + "[" + protocol.FenceKey[:1] + protocol.PauseKey[:1] + protocol.LockKey[:1] + "]*" // one pass for all
	var cursor uint64
	for {
		keys, next, err := c.Scan(ctx, cursor, match, scanCount).Result()
		if err != nil {
			return rediserr.Needs(err, "+scan")
		}
		if err := s.noteUsed(keys, protocol.LockKey, protocol.PauseKey); err != nil {
			return err
		}
		s.noteIdle(keys, left)
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// noteUsed records as used the elections of keys or channels of these kinds.
func (s *survey) noteUsed(names []string, kinds ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, full := range names {
		name, is := s.named(full, kinds...)
		if !is || s.used[name] {
			continue
		}
		if len(s.used) >= s.most {
			return fmt.Errorf("there are more than %d elections", s.most)
		}
		s.used[name] = true
		delete(s.idle, name)
	}
	return nil
}

// noteIdle records as idle the elections of counters that are not known to be used.
func (s *survey) noteIdle(keys []string, left *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, full := range keys {
		name, is := s.named(full, protocol.FenceKey)
		switch {
		case !is || s.used[name] || s.idle[name]:
		case len(s.idle) < s.most:
			s.idle[name] = true
		default:
			*left++
		}
	}
}

// named returns the election of a key or a channel if that is of one of these kinds. It rejects
// invalid names: a key that is not ours must not prevent reading all other elections.
func (s *survey) named(full string, kinds ...string) (name string, is bool) {
	name, kind, _ := strings.Cut(strings.TrimPrefix(full, s.prefix), protocol.CloseTag)
	return name, slices.Contains(kinds, kind) && protocol.CheckWord("Election", name, protocol.MaxName, "{}") == nil
}

// literal escapes the special characters of a Redis pattern.
func literal(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

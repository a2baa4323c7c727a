//go:build linux

package chaos

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

const (
	shardsEnv = "MANDATE_CHAOS_SHARDS"

	groupName = "chaos-group"
	// slots are keys: the number of shards before and after the growth divides it.
	slots = 24
)

// memberMain is a member of a group until SIGTERM. Every few milliseconds it writes down that
// it owns a shard, with the times between which it has found its term valid.
func memberMain() int {
	return takePart(func(ctx context.Context, q *elector.Quorum) error {
		shards, _ := strconv.Atoi(os.Getenv(shardsEnv))
		journal, err := os.OpenFile(os.Getenv(journalEnv), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		m, err := shard.New(q, shard.Config{
			Group: groupName, Shards: shards, ID: os.Getenv(idEnv), Lease: lease, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		})
		if err != nil {
			return err
		}
		return m.Run(ctx, func(ctx context.Context, term *shard.Term) error { return own(ctx, term, journal) })
	})
}

// own is the work of a shard.
func own(ctx context.Context, term *shard.Term, journal io.Writer) error {
	for ctx.Err() == nil {
		from := Now()
		if valid := term.Valid(); valid {
			// One write each: a process that is killed leaves no half of a line.
			fmt.Fprintf(journal, "%d %d %d %d %d %d\n", from, Now(), term.Shard, term.Shards, term.Token(), os.Getpid())
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// ownership is a line of the journal: at some moment between from and until the process owned the shard.
type ownership struct {
	from, until   time.Duration // on the clock of the machine, see Now
	shard, shards int
	token         uint64
	pid           int
}

func readOwnerships(r io.Reader) (all []ownership, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var o ownership
		if _, err := fmt.Sscan(lines.Text(), &o.from, &o.until, &o.shard, &o.shards, &o.token, &o.pid); err != nil {
			return nil, fmt.Errorf("%q: %w", lines.Text(), err)
		}
		all = append(all, o)
	}
	return all, lines.Err()
}

// checkOwnerships finds the keys that have had two owners: one owned them after another one with a
// higher token did. That means also that the tokens of a key were in order.
func checkOwnerships(all []ownership) (violations []string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for slot := range slots {
		wg.Go(func() {
			found := checkSlot(slot, all)
			mu.Lock()
			defer mu.Unlock()
			violations = append(violations, found...)
		})
	}
	wg.Wait()
	return violations
}

func checkSlot(slot int, all []ownership) (violations []string) {
	var its []ownership
	for _, o := range all {
		if slot%o.shards == o.shard {
			its = append(its, o)
		}
	}
	ended := slices.Clone(its)
	slices.SortFunc(its, func(a, b ownership) int { return cmp.Compare(a.from, b.from) })
	slices.SortFunc(ended, func(a, b ownership) int { return cmp.Compare(a.until, b.until) })
	var highest ownership // of those that were over when the one that is looked at began
	next := 0
	for _, o := range its {
		for ; next < len(ended) && ended[next].until < o.from; next++ {
			if ended[next].token >= highest.token {
				highest = ended[next]
			}
		}
		older := o.token < highest.token || o.token == highest.token && (o.pid != highest.pid || o.shards < highest.shards)
		if older && len(violations) < 3 {
			violations = append(violations, fmt.Sprintf("slot %d: %+v after %+v", slot, o, highest))
		}
	}
	return violations
}

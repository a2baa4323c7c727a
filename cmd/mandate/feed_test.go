package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/shard"
)

// viewer is a viewer of the console's page, and what it has received. It is its own ResponseWriter.
type viewer struct {
	mu     sync.Mutex
	events bytes.Buffer
	header http.Header
}

func (v *viewer) Header() http.Header { return v.header }
func (v *viewer) WriteHeader(int)     {}
func (v *viewer) Flush()              {}
func (v *viewer) Write(b []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.events.Write(b)
}

// page returns the rows and the site as last received.
func (v *viewer) page(t *testing.T) (rows map[string]console.Row, site console.Site) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	rows = map[string]console.Row{}
	for event := range strings.SplitSeq(v.events.String(), "\n\n") {
		kind, data, _ := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		var row console.Row
		var err error
		switch kind {
		case "site":
			site = console.Site{}
			err = json.Unmarshal([]byte(data), &site)
		case "row":
			err = json.Unmarshal([]byte(data), &row)
			rows[row.Election] = row
		case "gone":
			err = json.Unmarshal([]byte(data), &row)
			delete(rows, row.Election)
		}
		if err != nil {
			t.Errorf("%v: %s", err, event)
		}
	}
	return rows, site
}

// viewed runs a feed of these names, and a viewer of its page until leave is called.
func viewed(t *testing.T, r *electortest.Redis, names ...string) (v *viewer, leave context.CancelFunc) {
	page := console.New(console.Config{})
	f := &feed{quorum: r.Quorum("console"), names: names, page: page}
	ctx, cancel := context.WithCancel(context.Background())
	viewing, leave := context.WithCancel(ctx)
	v = &viewer{header: http.Header{}}
	var wg sync.WaitGroup
	wg.Go(func() { f.run(ctx) })
	wg.Go(func() {
		page.ServeHTTP(v, httptest.NewRequestWithContext(viewing, http.MethodGet, "http://localhost/api/live", http.NoBody))
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	return v, leave
}

// runCandidate campaigns until the test ends.
func runCandidate(t *testing.T, q *elector.Quorum, cfg elector.Config) *elector.Elector {
	t.Helper()
	cfg.Lease, cfg.Logger = cmp.Or(cfg.Lease, 10*time.Second), slog.New(slog.DiscardHandler)
	e, err := elector.New(q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, func(ctx context.Context) error {
		return e.Run(ctx, new(elector.Gate).Work)
	})
	return e
}

// runMember runs a member of a group until the test ends; without work its shards wait for their end.
func runMember(t *testing.T, q *elector.Quorum, cfg shard.Config, work shard.Work) {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	m, err := shard.New(q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if work == nil {
		work = func(ctx context.Context, _ *shard.Term) error {
			<-ctx.Done()
			return nil
		}
	}
	runUntilEnd(t, func(ctx context.Context) error { return m.Run(ctx, work) })
}

// runUntilEnd runs run until the test ends, by when its Redis may be gone.
func runUntilEnd(t *testing.T, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = run(ctx) })
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
}

func TestConsoleShowsElections(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		var sick electortest.Probe
		a := runCandidate(t, r.Quorum("a"), elector.Config{Election: "e", ID: "a", Advertise: "a:80"})
		r.Lead(a)
		runCandidate(t, r.Quorum("b"), elector.Config{Election: "e", ID: "b", Advertise: "b:80", Probe: &sick})
		electortest.Advance(time.Second)
		v, _ := viewed(t, r)
		electortest.Advance(3 * time.Second)
		rows, site := v.page(t)
		e := rows["e"]
		if e.State != "led" || e.Rank != console.RankWell || e.Leader != "a" || e.Address != "a:80" || e.Token == 0 || e.SinceMS == 0 || e.Able != "2/2" || e.Problem != "" || len(e.Candidates) != 2 || len(e.Terms) == 0 || !e.Terms[0].Current {
			t.Errorf("%+v", e)
		}
		if site.Prefix != "mandate" || !site.Known || len(site.Nodes) != 1 || site.Nodes[0].Error != "" {
			t.Errorf("%+v", site)
		}
		sick.Fail(context.DeadlineExceeded)
		electortest.Advance(12 * time.Second)
		rows, _ = v.page(t)
		if e := rows["e"]; e.Rank != console.RankProblem || !strings.Contains(e.Problem, "b: unhealthy") || e.Next != "fix the work or its probe" || e.Candidates[1].OK || e.Candidates[1].Health != "unhealthy" {
			t.Errorf("%+v", e)
		}
		// A change of the leader shows within a second, and soon why the last term ended.
		sick.Pass()
		electortest.Advance(12 * time.Second)
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		electortest.Advance(1500 * time.Millisecond)
		if rows, _ = v.page(t); rows["e"].Leader != "b" {
			t.Errorf("%+v", rows["e"])
		}
		electortest.Advance(2 * time.Second)
		if rows, _ = v.page(t); len(rows["e"].Terms) < 2 || rows["e"].Terms[1].Reason != "resigned" || !rows["e"].Terms[1].Wanted {
			t.Errorf("%+v", rows["e"])
		}
		// Rows stay while Redis can't be read, with the time of the last reading.
		heal := r.CutOff("console")
		electortest.Advance(20 * time.Second)
		if rows, site = v.page(t); site.Known || site.AsOfMS == 0 || site.Nodes[0].Error == "" || rows["e"].Leader != "b" {
			t.Errorf("%+v, %+v", site, rows["e"])
		}
		heal()
		electortest.Advance(20 * time.Second)
		if _, site = v.page(t); !site.Known {
			t.Errorf("%+v", site)
		}
		// An invalid name, and an election that ends.
		keys := r.Client("someone")
		if err := keys.ZAdd(t.Context(), "mandate:elections", redis.Z{Member: "x y", Score: float64(time.Now().UnixMilli())}, redis.Z{Member: "f", Score: float64(time.Now().UnixMilli())}).Err(); err != nil {
			t.Fatal(err)
		}
		electortest.Advance(15 * time.Second)
		if rows, _ = v.page(t); rows["f"].State != "abandoned" || rows["f"].Rank != console.RankAbandoned || len(rows) > 3 {
			t.Errorf("%+v", rows)
		}
		keys.ZRem(t.Context(), "mandate:elections", "f")
		electortest.Advance(15 * time.Second)
		if rows, _ = v.page(t); rows["f"].Election != "" {
			t.Errorf("%+v", rows["f"])
		}
	})
}

// Without a viewer nothing is read.
func TestConsoleRestsWithoutViewers(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		counter := r.Client("counter")
		commands := func() (n int) {
			info := counter.Info(t.Context(), "stats").Val()
			_, count, _ := strings.Cut(info, "total_commands_processed:")
			_, _ = fmt.Sscan(count, &n)
			return n
		}
		_, leave := viewed(t, r)
		before := commands()
		electortest.Advance(10 * time.Second)
		if n := commands() - before; n < 10 {
			t.Errorf("%d commands in 10 s with a viewer", n)
		}
		leave()
		electortest.Advance(10 * time.Second)
		before = commands()
		electortest.Advance(time.Minute)
		if n := commands() - before; n != 1 {
			t.Errorf("%d commands in a minute without a viewer", n)
		}
	})
}

// A group is one row, with its members; it stays one when they are gone.
func TestConsoleShowsGroups(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		runMember(t, r.Quorum("a"), shard.Config{Group: "g", Shards: 4, ID: "a"}, nil)
		electortest.Advance(30 * time.Second)
		v, _ := viewed(t, r, "g#*", "never")
		electortest.Advance(5 * time.Second)
		rows, _ := v.page(t)
		g := rows["g#*"]
		if len(rows) != 2 || g.State != "led" || g.Leader != "4/4 owned" || g.Able != "1/1" || len(g.Candidates) != 1 || g.Candidates[0].Role != "owns 0-3; assigns" {
			t.Errorf("%+v", rows)
		}
		if never := rows["never"]; never.Rank != console.RankUrgent && never.Rank != console.RankAbandoned || never.Problem == "" {
			t.Errorf("%+v", never)
		}
		r.CutOff("a")
		electortest.Advance(time.Minute)
		if rows, _ = v.page(t); rows["g#*"].State != "vacant" {
			t.Errorf("%+v", rows)
		}
	})
}

package main

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/health"
	"github.com/mandate-dev/mandate/internal/servertest"
)

func TestFeed(t *testing.T) {
	feedSuite(t, func(t *testing.T) string { return miniredis.RunT(t).Addr() })
}
func TestFeedReal(t *testing.T) {
	feedSuite(t, func(t *testing.T) string { return servertest.Redis(t).Addr() })
}

func feedSuite(t *testing.T, server func(*testing.T) string) {
	for name, test := range map[string]func(t *testing.T, a, b *feeder){
		"an old leader resumes in the middle of a batch": testResumes,
		"a request is repeated, and overtaken":           testOvertaken,
		"rows commit late":                               testLate,
		"the queue comes and goes":                       testQueueLost,
	} {
		t.Run(name, func(t *testing.T) {
			db, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "a b?.db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			addr := server(t)
			test(t, newFeeder(t, db, addr, "a"), newFeeder(t, db, addr, "b"))
		})
	}
}

func newFeeder(t testing.TB, db *database, addr, worker string) *feeder {
	t.Helper()
	q, err := openQueue("redis://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.close)
	return &feeder{db: db, queue: q, beat: health.NewHeartbeat(time.Second), log: slog.New(slog.DiscardHandler), worker: worker,
		interval: time.Millisecond, batch: 3, late: time.Minute}
}

func insert(t *testing.T, db *database, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		if _, err := db.ExecContext(t.Context(), "INSERT INTO events (id, type, payload) VALUES ($1, 'order', '{}')", id); err != nil {
			t.Fatal(err)
		}
	}
}

// wantQueue is the ids in the queue, in order.
func wantQueue(t *testing.T, f *feeder, want string) {
	t.Helper()
	entries, err := f.queue.client.XRange(t.Context(), queueKey, "-", "+").Result()
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Values["id"].(string))
	}
	if got := strings.Join(ids, " "); err != nil || got != want {
		t.Fatalf("the queue holds %q, %v; want %q", got, err, want)
	}
}

// drain polls until nothing is left.
func drain(t *testing.T, f *feeder, token uint64, p **position) {
	t.Helper()
	for n := 1; ; n++ {
		more, err := f.step(t.Context(), token, n+1000, p)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
}

func testResumes(t *testing.T, a, b *feeder) {
	insert(t, a.db, 1, 2, 3, 4)
	old, err := a.queue.load(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	read, err := a.db.read(t.Context(), old.checkpoint, a.batch)
	if err != nil || len(read.rows) != 3 {
		t.Fatalf("%+v, %v", read, err)
	}
	// Here the old leader stops, with three rows in its hands.
	var p *position
	if _, err := b.step(t.Context(), 6, 1, &p); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err = a.queue.feed(t.Context(), 5, "a", "5/1", &old, old.checkpoint.after(read, a.late), read.rows)
		if !errors.Is(err, fence.ErrStale) {
			t.Fatalf("the old leader: %v, want ErrStale", err)
		}
	}
	if _, err := a.queue.load(t.Context(), 5); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("the old leader loads: %v, want ErrStale", err)
	}
	drain(t, b, 6, &p)
	wantQueue(t, b, "1 2 3 4")
}

func testOvertaken(t *testing.T, a, _ *feeder) {
	insert(t, a.db, 1, 2)
	var p *position
	if _, err := a.step(t.Context(), 5, 1, &p); err != nil {
		t.Fatal(err)
	}
	insert(t, a.db, 3, 4)
	before := *p
	read, err := a.db.read(t.Context(), before.checkpoint, a.batch)
	if err != nil {
		t.Fatal(err)
	}
	send := func(name string, p position) error {
		return a.queue.feed(t.Context(), 5, "a", name, &p, p.checkpoint.after(read, a.late), read.rows)
	}
	// The answer to the first is lost, and it is sent again.
	for range 2 {
		if err := send("5/2", before); err != nil {
			t.Fatal(err)
		}
	}
	wantQueue(t, a, "1 2 3 4")
	// It was thought lost, the rows were sent in another batch, and then it arrives.
	if err := send("5/3", before); !errors.Is(err, errMoved) {
		t.Fatalf("another batch from the same place: %v, want errMoved", err)
	}
	wantQueue(t, a, "1 2 3 4")
}

func testLate(t *testing.T, a, b *feeder) {
	insert(t, a.db, 2, 5, 9)
	var p *position
	drain(t, a, 5, &p)
	insert(t, a.db, 1, 7, 10, 8, 3)
	drain(t, a, 5, &p)
	wantQueue(t, a, "2 5 9 1 3 7 8 10")
	// The gaps are part of the checkpoint: the next leader knows them.
	insert(t, a.db, 4)
	var q *position
	drain(t, b, 6, &q)
	wantQueue(t, b, "2 5 9 1 3 7 8 10 4")
	// Beyond the limit a gap is given up: this is what the limit costs.
	b.late = time.Nanosecond
	time.Sleep(5 * time.Millisecond)
	drain(t, b, 6, &q)
	drain(t, b, 6, &q)
	if len(q.checkpoint.Gaps) != 0 {
		t.Fatalf("gaps are left: %v", q.checkpoint.Gaps)
	}
	insert(t, a.db, 6)
	drain(t, b, 6, &q)
	wantQueue(t, b, "2 5 9 1 3 7 8 10 4")
}

func testQueueLost(t *testing.T, a, _ *feeder) {
	insert(t, a.db, 1)
	var p *position
	drain(t, a, 5, &p)
	if err := a.queue.client.Set(t.Context(), checkpointKey, "not a checkpoint", 0).Err(); err != nil {
		t.Fatal(err)
	}
	insert(t, a.db, 2)
	if _, err := a.step(t.Context(), 5, 7, &p); err == nil {
		t.Fatal("fed over a key of another type")
	}
	wantQueue(t, a, "1")
}

// More gaps than a statement takes parameters for, and a batch that ends among them.
func TestReadManyGaps(t *testing.T) {
	db, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "events.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var c checkpoint
	if err := db.inTx(t.Context(), func(tx *sql.Tx) error {
		for id := int64(1); id <= 1000; id += 2 {
			c.Gaps = append(c.Gaps, gap{id, id, 0})
			if _, err := tx.Exec("INSERT INTO events (id, type, payload) VALUES ($1, 'order', '{}')", id); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	c.High = 1000
	for _, batch := range []int{1, 99, 100, 101, 499, 500, 501} {
		r, err := db.read(t.Context(), c, batch)
		if err != nil || len(r.rows) != min(batch, 500) {
			t.Fatalf("batch %d: %d rows, %v", batch, len(r.rows), err)
		}
		for i, row := range r.rows {
			if row.ID != int64(2*i+1) {
				t.Fatalf("batch %d: row %d has id %d", batch, i, row.ID)
			}
		}
		if want := r.rows[len(r.rows)-1].ID; batch <= 500 && r.gapsTo != want || batch > 500 && r.gapsTo != allGaps {
			t.Fatalf("batch %d: gaps read to %d", batch, r.gapsTo)
		}
	}
}

// A gap costs a look-up in the index, however large the table is.
func TestGapsAreLookedUp(t *testing.T) {
	gapsAreLookedUp(t, filepath.Join(t.TempDir(), "events.db"), "EXPLAIN QUERY PLAN ", "SEARCH events", "SCAN events")
}

func TestGapsAreLookedUpReal(t *testing.T) {
	gapsAreLookedUp(t, servertest.Postgres(t), "EXPLAIN ", "Index Cond", "Seq Scan on events")
}

func gapsAreLookedUp(t *testing.T, where, explain, want, bad string) {
	db, err := openDatabase(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "INSERT INTO events (id, type, payload) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "+
		"SELECT i, 'order', '{}' FROM n"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "ANALYZE"); err != nil {
		t.Fatal(err)
	}
	for _, gaps := range []int{1, 10, gapsPerQuery} {
		args := make([]any, 2*gaps)
		for i := range args {
			args[i] = int64(i / 2 * 100)
		}
		rows, err := db.QueryContext(t.Context(), explain+db.lateQuery(gaps, 2), args...)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&plan, *values[len(values)-1].(*any)) // the plan's words come last
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan.String(), want) || strings.Contains(plan.String(), bad) || strings.Contains(plan.String(), "Filter") {
			t.Errorf("%d gaps:\n%s", gaps, &plan)
		}
	}
}

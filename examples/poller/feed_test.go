package main

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/health"
)

// newFeeders returns the feeders of two workers on one database and one queue.
func newFeeders(t *testing.T) (a, b *feeder) {
	t.Helper()
	db, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "a b?.db"))
	must(t, err)
	t.Cleanup(func() { db.Close() })
	q, err := openQueue("redis://" + miniredis.RunT(t).Addr())
	must(t, err)
	t.Cleanup(func() { q.client.Close() })
	a = &feeder{db: db, queue: q, beat: health.NewHeartbeat(time.Second), log: slog.New(slog.DiscardHandler), late: time.Minute}
	other := *a
	return a, &other
}

func (f *feeder) insert(t *testing.T, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		if _, err := f.db.ExecContext(t.Context(), "INSERT INTO events (id, type, payload) VALUES ($1, 'order', '{}')", id); err != nil {
			t.Fatal(err)
		}
	}
}

// poll feeds what is in the table.
func (f *feeder) poll(t *testing.T, token uint64, n int, p *position) *position {
	t.Helper()
	p, _, err := f.step(t.Context(), token, n, p)
	must(t, err)
	return p
}

// wantQueued wants these ids in the queue, in this order.
func (f *feeder) wantQueued(t *testing.T, want string) {
	t.Helper()
	entries, err := f.queue.client.XRange(t.Context(), queueKey, "-", "+").Result()
	must(t, err)
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Values["id"].(string))
	}
	if got := strings.Join(ids, " "); got != want {
		t.Fatalf("the queue holds %q, want %q", got, want)
	}
}

// batch is what a leader with this position has read and not fed yet.
func (f *feeder) batch(t *testing.T, name string, p *position) (next *position, rows []event) {
	t.Helper()
	r, err := f.db.read(t.Context(), p.checkpoint, feedBatch)
	must(t, err)
	return &position{p.checkpoint.after(r, f.late), name}, r.rows
}

func TestOldLeaderResumesInABatch(t *testing.T) {
	a, b := newFeeders(t)
	a.insert(t, 1, 2, 3, 4)
	old, err := a.queue.load(t.Context(), 5)
	must(t, err)
	next, rows := a.batch(t, "5/1", old) // here the old leader stops
	b.poll(t, 6, 1, nil)
	for range 2 {
		if err := a.queue.feed(t.Context(), 5, old, next, rows); !errors.Is(err, fence.ErrStale) {
			t.Fatalf("the old leader feeds: %v, want ErrStale", err)
		}
	}
	if _, err := a.queue.load(t.Context(), 5); !errors.Is(err, fence.ErrStale) {
		t.Fatalf("the old leader loads: %v, want ErrStale", err)
	}
	b.wantQueued(t, "1 2 3 4")
}

func TestBatchIsRepeatedAndOvertaken(t *testing.T) {
	a, _ := newFeeders(t)
	a.insert(t, 1, 2)
	p := a.poll(t, 5, 1, nil)
	a.insert(t, 3, 4)
	next, rows := a.batch(t, "5/2", p)
	for range 2 { // the answer to the first is lost, and it is sent again
		must(t, a.queue.feed(t.Context(), 5, p, next, rows))
	}
	// It was thought lost, the rows were sent in another batch, and then it arrives.
	next.batch = "5/3"
	if err := a.queue.feed(t.Context(), 5, p, next, rows); !errors.Is(err, errMoved) {
		t.Fatalf("another batch from the same place: %v, want errMoved", err)
	}
	a.wantQueued(t, "1 2 3 4")
}

func TestRowsCommitLate(t *testing.T) {
	a, b := newFeeders(t)
	a.insert(t, 2, 5, 9)
	p := a.poll(t, 5, 1, nil)
	a.insert(t, 1, 7, 10, 8, 3)
	a.poll(t, 5, 2, p)
	a.wantQueued(t, "2 5 9 1 3 7 8 10")
	// The gaps are part of the checkpoint: the next leader knows them.
	a.insert(t, 4)
	p = b.poll(t, 6, 1, nil)
	b.wantQueued(t, "2 5 9 1 3 7 8 10 4")
	// Beyond the limit a gap is given up: this is what the limit costs.
	b.late = -time.Second
	if p = b.poll(t, 6, 2, p); len(p.checkpoint.Gaps) != 0 {
		t.Fatalf("gaps are left: %v", p.checkpoint.Gaps)
	}
	a.insert(t, 6)
	b.poll(t, 6, 3, p)
	b.wantQueued(t, "2 5 9 1 3 7 8 10 4")
}

// A consumer that gets an event in two entries records the double; the same entry again is none.
func TestHandledTwice(t *testing.T) {
	f, _ := newFeeders(t)
	c := &consumer{db: f.db, queue: f.queue, log: f.log, worker: "a", claimAfter: time.Minute}
	must(t, f.queue.createGroup(t.Context()))
	f.insert(t, 1, 2)
	f.poll(t, 5, 1, nil)
	entries, err := f.queue.client.XRange(t.Context(), queueKey, "-", "+").Result()
	must(t, err)
	again := entries[1]
	again.ID += "9"
	for _, delivered := range [][]redis.XMessage{entries, entries, {entries[0], again}, entries} {
		must(t, c.handle(t.Context(), delivered))
	}
	var out strings.Builder
	err = verify(t.Context(), f.db, "redis://"+f.queue.client.(*redis.Client).Options().Addr, &out)
	if err == nil || out.String() != "2 events, fed by 1 leaders; lost: 0, queued twice: 1\n" {
		t.Errorf("%v\n%s", err, &out)
	}
}

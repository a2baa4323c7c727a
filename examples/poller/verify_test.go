package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// verify finds what it is there for.
func TestVerify(t *testing.T) {
	for name, c := range map[string]struct {
		spoil string
		want  string // in the error; none: all is well
	}{
		"all well":  {"UPDATE events SET type = 'x'", ""},
		"lost":      {"DELETE FROM handled WHERE event_id = 2", "1 events were not handled"},
		"doubled":   {"INSERT INTO doubled (event_id, entry, worker) VALUES (2, '1-1', 'w')", "1 events were queued twice"},
		"unknown":   {"DELETE FROM events WHERE id = 3", "not in the table"},
		"no events": {"DELETE FROM events", "no events"},
	} {
		t.Run(name, func(t *testing.T) {
			where := filepath.Join(t.TempDir(), "events.db")
			db, err := openDatabase(t.Context(), where)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			insert(t, db, 1, 2, 3)
			for _, query := range []string{"INSERT INTO handled (event_id, entry, worker, token) SELECT id, '0-1', 'w', 5 FROM events", c.spoil} {
				if _, err := db.ExecContext(t.Context(), query); err != nil {
					t.Fatal(err)
				}
			}
			m := miniredis.RunT(t)
			code, out, logs := run(t, "verify", "--wait", "300ms", "--db", where, "--redis", "redis://"+m.Addr())
			if c.want == "" && code != 0 || c.want != "" && (code != 1 || !strings.Contains(logs, c.want)) {
				t.Errorf("exit code %d, want %q\n%s%s", code, c.want, out, logs)
			}
		})
	}
}

// A consumer that gets an event in two entries records the double; the same entry
// again is none.
func TestHandledTwice(t *testing.T) {
	db, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "events.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f := newFeeder(t, db, miniredis.RunT(t).Addr(), "a")
	c := &consumer{db: db, queue: f.queue, log: f.log, worker: "a", batch: 10, claimAfter: time.Minute}
	if err := f.queue.createGroup(t.Context()); err != nil {
		t.Fatal(err)
	}
	insert(t, db, 1, 2)
	var p *position
	drain(t, f, 5, &p)
	entries, err := f.queue.client.XRange(t.Context(), queueKey, "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // delivered again and again
		if err := c.handle(t.Context(), entries); err != nil {
			t.Fatal(err)
		}
	}
	again := entries[1]
	again.ID += "9"
	if err := c.handle(t.Context(), append(entries[:1], again)); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := r.readCounts(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if r.handled != 2 || len(r.doubled) != 1 || r.doubled[0] != 2 {
		t.Errorf("%+v: want 2 handled, and event 2 doubled", r)
	}
}

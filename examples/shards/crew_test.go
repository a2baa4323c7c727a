package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/internal/servertest"
)

const (
	realLease  = 3 * time.Second
	realShards = 12
	// What a lease promises, and then what a small machine may add that runs all of this,
	// under the race detector, and other tests beside it.
	waitLimit = 2 * time.Minute
)

// Members die, the assigner's among them, two at once, and hang, on real servers.
func TestRealMembersDieSQLite(t *testing.T) {
	membersDie(t, filepath.Join(t.TempDir(), "invoices.db"))
}

func TestRealMembersDiePostgres(t *testing.T) { membersDie(t, servertest.Postgres(t)) }

func membersDie(t *testing.T, db string) {
	var urls []string
	for _, s := range servertest.RedisN(t, 3, servertest.AOF...) {
		urls = append(urls, s.URL())
	}
	c := newTestCrew(t, db, urls)
	c.ok(c.start("shop", "sell"))
	all := []string{"m1", "m2", "m3", "m4"}
	for _, name := range all {
		c.ok(c.member(name))
	}
	c.even("at first", all...)
	for round := range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		victim, err := c.assigner(ctx)
		cancel()
		c.ok(err)
		c.kill(victim)
		c.even("after the death of the assigner's member", c.rest(victim)...)
		c.ok(c.member(victim))
		c.even("after its return", all...)

		suspended := all[round]
		c.ok(c.suspend(t.Context(), suspended))
		c.even("without one that is suspended", c.rest(suspended)...)
		c.signal(suspended, syscall.SIGCONT)
		c.even("after it was resumed", all...)
	}
	c.kill("m2")
	c.kill("m4")
	c.even("after the death of two", "m1", "m3")
	c.ok(c.stop("shop"))
	r, err := verifyWithin(t.Context(), c.crew.db, waitLimit)
	c.ok(err)
	var out strings.Builder
	r.print(&out)
	t.Log("\n" + out.String())
	if r.moves < 4*realShards/4 {
		t.Errorf("%d moves: too few for a test", r.moves)
	}
	c.ok(r.verdict())
	for _, name := range c.rest() {
		c.ok(c.stop(name))
	}
}

// testCrew is a crew whose errors end the test.
type testCrew struct {
	*crew
	t *testing.T
}

func newTestCrew(t *testing.T, db string, urls []string) *testCrew {
	t.Helper()
	c, err := newCrew(t.Context(), "info", t.TempDir(), db, realLease, realShards, urls...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	t.Cleanup(func() {
		if t.Failed() {
			logs(t, c.dir)
		}
	})
	return &testCrew{c, t}
}

func (c *testCrew) ok(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *testCrew) even(what string, names ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), waitLimit)
	defer cancel()
	began := time.Now()
	if _, err := c.awaitEven(ctx, names...); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
	c.t.Logf("%s: even after %v", what, time.Since(began).Round(time.Millisecond))
}

func logs(t *testing.T, dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	slices.Sort(files)
	for _, f := range files {
		b, _ := os.ReadFile(f)
		t.Logf("--- %s\n%s", filepath.Base(f), b[max(0, len(b)-6000):])
	}
}

package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/examples/internal/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// All of it in one go, with no server at all.
func TestDemo(t *testing.T) {
	if out, err := exampletest.Program(t, run); err != nil || !strings.Contains(out, "lost, doubled or crossed: 0") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func testDatabase(t *testing.T) (db *database, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "invoices.db")
	db, err := openDatabase(t.Context(), path)
	servertest.Must(t, err)
	t.Cleanup(func() { db.Close() })
	for range 3 {
		servertest.Must(t, db.order(context.Background(), "a"))
	}
	return db, path
}

// A former owner of the tenant writes nothing, however late it wakes up: not before its
// successor has written, and not after it.
func TestFormerOwnerIsRefused(t *testing.T) {
	db, path := testDatabase(t)
	older, newer := invoice{shard: 3, token: 1000, member: "m1"}, invoice{shard: 3, token: 1001, member: "m2"}
	for _, step := range []struct {
		by   invoice
		want error
	}{{older, nil}, {newer, nil}, {older, fence.ErrStale}, {newer, nil}, {older, fence.ErrStale}} {
		if err := db.write(t.Context(), "a", step.by); !errors.Is(err, step.want) {
			t.Errorf("%s wrote: %v, want %v", step.by.member, err, step.want)
		}
		servertest.Must(t, db.order(t.Context(), "a"))
	}
	if err := db.write(t.Context(), "a", newer); err != nil {
		t.Error(err)
	}
	if out, err := exampletest.Program(t, run, "--db", path, "verify"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// verify finds what it is there for.
func TestVerify(t *testing.T) {
	const insert = "INSERT INTO invoices (tenant, number, shard, token, member) VALUES "
	for name, c := range map[string]struct {
		spoil string
		want  string // in the error; none: all is well
	}{
		"all well":        {"UPDATE tenants SET ordered = ordered", ""},
		"the next owner":  {"UPDATE invoices SET token = 8, member = 'm2' WHERE number = 3", ""},
		"lost at the end": {"DELETE FROM invoices WHERE number = 3", "3 orders, 2 invoices"},
		"a gap":           {"DELETE FROM invoices WHERE number = 2", "lost or doubled: a: invoice 3 after 1"},
		"doubled":         {insert + "('a', 2, 1, 7, 'm1')", "lost or doubled: a: invoice 2 after 3"},
		"not ordered":     {insert + "('x', 1, 1, 7, 'm1')", "3 orders, 4 invoices"},
		"crossed":         {"UPDATE invoices SET token = 6 WHERE number = 3", "crossed: a: m1 wrote with token 6 after m1 with 7"},
		"shared":          {"UPDATE invoices SET member = 'm2' WHERE number = 3", "crossed: a: m2 wrote with token 7 after m1 with 7"},
		"no orders":       {"DELETE FROM tenants; DELETE FROM invoices", "0 orders, 0 invoices"},
	} {
		t.Run(name, func(t *testing.T) {
			db, path := testDatabase(t)
			servertest.Must(t, db.write(t.Context(), "a", invoice{shard: 1, token: 7, member: "m1"}))
			_, err := db.ExecContext(t.Context(), c.spoil)
			servertest.Must(t, err)
			_, err = exampletest.Program(t, run, "--db", path, "verify")
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

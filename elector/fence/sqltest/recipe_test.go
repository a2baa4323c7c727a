package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// poll is the recipe of docs/recipes.md, word for word; so is step, but for what it writes.
func poll(ctx context.Context, e *elector.Elector, db *sql.DB) error {
	marks, err := fence.NewSQL(fence.PostgreSQL, "") // marks.Create(ctx, db) makes its table
	if err != nil {
		return err
	}
	return e.Run(ctx, func(ctx context.Context, term *elector.Term) error {
		for every := time.Tick(time.Second); ctx.Err() == nil; {
			if err := step(ctx, db, marks, term.Token()); errors.Is(err, fence.ErrStale) {
				return nil // another one leads: campaign again
			} else if err != nil && ctx.Err() == nil {
				slog.Error("step failed", "error", err) // and go on: an error that is returned ends Run
			}
			select {
			case <-ctx.Done():
			case <-every:
			}
		}
		return nil
	})
}

// step is one transaction of the leader.
func step(ctx context.Context, db *sql.DB, marks *fence.SQL, token uint64) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := marks.Guard(ctx, tx, "orders", token); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO recipe (token) VALUES ($1)", token); err != nil { // read and write in tx
		return err
	}
	return tx.Commit()
}

// The recipe writes each second, survives errors of the database within its term, and campaigns again when a newer leader has written.
func TestRecipeReal(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("recipe_test.go")
	doc, err2 := os.ReadFile("../../../docs/recipes.md")
	err = errors.Join(err, err2)
	must(t, err)
	here := map[string]bool{}
	for line := range strings.Lines(string(source)) {
		here[strings.TrimSpace(line)] = true
	}
	_, section, _ := strings.Cut(string(doc), "## Elect on Redis, fence in PostgreSQL")
	_, blocks, found := strings.Cut(section, "```go\n")
	if blocks, _, _ = strings.Cut(blocks, "```"); !found {
		t.Error("the document has no recipe")
	}
	for line := range strings.Lines(blocks) {
		if line = strings.TrimSpace(line); !here[line] && line != "" && line != "// read and write in tx" {
			t.Errorf("the document has another recipe: %s", line)
		}
	}
	db := openDB(t, "pgx", servertest.Postgres(t))
	must(t, newMarks(t, fence.PostgreSQL, "").Create(t.Context(), db))
	exec(t, db, "DROP TABLE IF EXISTS recipe")
	exec(t, db, "CREATE TABLE recipe (token BIGINT)")
	q, err := elector.Open(servertest.Redis(t).URL())
	must(t, err)
	defer q.Close()
	e, err := elector.New(q, elector.Config{Election: "orders", Lease: 2 * time.Second})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := poll(ctx, e, db); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	count := func(table string) (rows, terms int) {
		must(t, db.QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT token) FROM "+table).Scan(&rows, &terms))
		return rows, terms
	}
	servertest.Eventually(t, 30*time.Second, "it writes each second", func() bool { n, _ := count("recipe"); return n >= 3 })
	exec(t, db, "ALTER TABLE recipe RENAME TO away")
	time.Sleep(2500 * time.Millisecond)
	before, _ := count("away")
	exec(t, db, "ALTER TABLE away RENAME TO recipe")
	servertest.Eventually(t, 30*time.Second, "it goes on", func() bool { n, _ := count("recipe"); return n >= before+2 })
	if n, terms := count("recipe"); terms != 1 {
		t.Errorf("%d transactions in %d terms", n, terms)
	}
	exec(t, db, "UPDATE mandate_fence SET token = token + 1")
	servertest.Eventually(t, 30*time.Second, "the next term writes", func() bool { _, terms := count("recipe"); return terms == 2 })
}

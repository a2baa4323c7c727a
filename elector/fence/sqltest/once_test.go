package sqltest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/testfence"
)

// A tick is taken with what its job writes, by one leader, and not at all after a rollback.
func testSQLOnce(t *testing.T, s *sqlStage) {
	once, err := fence.NewOnceSQL(s.dialect, "")
	must(t, err)
	exec(t, s.db, "DROP TABLE IF EXISTS mandate_tick")
	exec(t, s.db, once.Schema())
	tickAt := func(minute int, token uint64) fence.Tick {
		at := time.Date(2020, 3, 1, 12, minute, 0, 0, time.UTC)
		return fence.Tick{Job: "mail", At: at, Next: at.Add(time.Minute), Now: at, Token: token, By: "host a"}
	}
	// run runs a whole transaction, whose job writes a row.
	run := func(minute int, token uint64, commit bool) error {
		tx, err := s.db.BeginTx(context.Background(), nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := once.Take(context.Background(), tx, tickAt(minute, token)); err != nil || !commit {
			return err
		}
		return errors.Join(s.put(tx, token), tx.Commit())
	}
	for i, step := range []struct {
		minute int
		token  uint64
		commit bool
		want   error
	}{
		{0, 5, false, nil}, // rolled back
		{0, 5, true, nil},
		{0, 5, true, fence.ErrRan},
		{-1, 7, true, fence.ErrRan},
		{1, 4, true, fence.ErrStale},
		{1, 7, true, nil},
	} {
		if err := run(step.minute, step.token, step.commit); !errors.Is(err, step.want) {
			t.Fatalf("step %d: %v, want %v", i, err, step.want)
		}
	}
	testfence.WantStale(t, run(3, 6, true), 6, 7)
	s.wantTokens(t, 5, 7)
	last, err := once.Last(t.Context(), s.db, "mail")
	if want := tickAt(1, 7); err != nil || !last.Tick.Equal(want.At) || !last.Next.Equal(want.Next) || last.Token != 7 || last.Run.By != want.By || last.Running() {
		t.Errorf("%+v, %v", last, err)
	}
	if none, err := once.Last(t.Context(), s.db, "bills"); err != nil || !none.Tick.IsZero() {
		t.Errorf("a job without a tick: %+v, %v", none, err)
	}
	if err := once.Take(t.Context(), s.db, tickAt(3, 9)); err == nil || !strings.Contains(err.Error(), "transaction") {
		t.Errorf("without a transaction: %v", err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { t.Log(run(3, 7, true)) }) // databases may refuse one of two that meet
	}
	all.Wait()
	s.wantTokens(t, 5, 7, 7)
	exec(t, s.db, "UPDATE mandate_tick SET mark = 'x'")
	if err := run(3, 7, true); !errors.Is(err, fence.ErrForeignMark) {
		t.Errorf("a mark of another program: %v", err)
	}
}

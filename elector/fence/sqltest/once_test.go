package sqltest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/testfence"
)

// A tick is taken with what its job writes, by one leader, and not at all after a rollback.
func testSQLOnce(t *testing.T, s *sqlStage) {
	once, err := fence.NewOnceSQL(s.dialect, "")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, s.db, "DROP TABLE IF EXISTS mandate_tick")
	exec(t, s.db, once.Schema())
	at := time.Now().Truncate(time.Second)
	// take runs a whole transaction, whose job writes a row.
	take := func(after time.Duration, token uint64, commit bool) error {
		tx, err := s.db.BeginTx(context.Background(), nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		tick := fence.Tick{Job: "mail", At: at.Add(after), Every: time.Hour, Token: token, By: "host a"}
		if err := once.Take(context.Background(), tx, tick); err != nil || !commit {
			return err
		}
		if err := s.put(tx, token); err != nil {
			return err
		}
		return tx.Commit()
	}
	for i, step := range []struct {
		after  time.Duration
		token  uint64
		commit bool
		want   error
	}{
		{0, 5, false, nil}, // rolled back
		{0, 5, true, nil},
		{0, 5, true, fence.ErrRan},
		{0, 7, true, fence.ErrRan},
		{-time.Second, 7, true, fence.ErrRan},
		{time.Second, 4, true, fence.ErrStale},
		{time.Second, 7, true, nil},
		{2 * time.Second, 5, true, fence.ErrStale},
	} {
		if err := take(step.after, step.token, step.commit); !errors.Is(err, step.want) {
			t.Fatalf("step %d: %v, want %v", i, err, step.want)
		}
	}
	testfence.WantStale(t, take(time.Minute, 6, true), 6, 7)
	s.wantTokens(t, 5, 7)
	last, err := once.Last(t.Context(), s.db, "mail")
	if err != nil || !last.Tick.Equal(at.Add(time.Second)) || last.Token != 7 || last.By != "host a" || last.Every != time.Hour {
		t.Errorf("%+v, %v", last, err)
	}
	if none, err := once.Last(t.Context(), s.db, "bills"); err != nil || !none.Tick.IsZero() {
		t.Errorf("a job without a tick: %+v, %v", none, err)
	}
	if err := once.Take(t.Context(), s.db, fence.Tick{Job: "mail", At: at, Every: time.Hour, Token: 9}); err == nil || !strings.Contains(err.Error(), "transaction") {
		t.Errorf("without a transaction: %v", err)
	}
	var ran atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			switch err := take(time.Minute, 7, true); {
			case err == nil:
				ran.Add(1)
			case !errors.Is(err, fence.ErrRan):
				t.Log(err) // databases may refuse one of two that meet
			}
		})
	}
	wg.Wait()
	if n := ran.Load(); n != 1 {
		t.Errorf("a tick ran %d times", n)
	}
	exec(t, s.db, "UPDATE mandate_tick SET mark = 'x'")
	if err := take(time.Minute, 7, true); !errors.Is(err, fence.ErrForeignMark) {
		t.Errorf("a mark of another program: %v", err)
	}
}

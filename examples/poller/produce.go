package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/examples/internal/cli"
)

// producer simulates the legacy application.
type producer struct {
	db       *database
	log      *slog.Logger
	count    int           // 0: no end
	duration time.Duration // 0: no end
	rate     float64       // events per second
	late     float64       // the share of transactions that commit late
	lateBy   time.Duration // maximum delay of such a commit
	rollback float64       // the share of transactions that are rolled back
}

func (a *app) produceCommand() *cobra.Command {
	p := &producer{}
	cmd := &cobra.Command{
		Use:   "produce",
		Short: "Play the legacy application: write events into the table",
		Long: `Write events into the table as the legacy application does: each in a
transaction of its own, some of which commit late, after others with higher
ids, and some of which never do.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.rate <= 0 || p.count < 0 || p.duration < 0 || p.late < 0 || p.late > 1 || p.rollback < 0 || p.rollback > 1 || p.lateBy < 0 {
				return errors.New("--rate must be above 0, --late and --rollback between 0 and 1, --count, --for and --late-by not negative")
			}
			return a.withDatabase(cmd, func(ctx context.Context, db *database) error {
				p.db, p.log = db, a.log
				fmt.Fprintf(a.stdout, "%d events written\n", p.run(ctx))
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&p.count, "count", 0, "how many events (0: no end)")
	f.DurationVar(&p.duration, "for", 0, "how long (0: no end)")
	f.Float64Var(&p.rate, "rate", 50, "events per second")
	f.Float64Var(&p.late, "late", 0.1, "share of the transactions that commit late")
	f.DurationVar(&p.lateBy, "late-by", 2*time.Second, "how late at most; the workers' --late must be longer")
	f.Float64Var(&p.rollback, "rollback", 0.02, "share of the transactions that are rolled back")
	return cmd
}

// dawdlers bounds how many transactions are open at a time.
const dawdlers = 16

// run writes events until it is done or ctx ends, and returns how many were committed. It finishes
// transactions that have begun.
func (p *producer) run(ctx context.Context) int64 {
	if p.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.duration)
		defer cancel()
	}
	var wg sync.WaitGroup
	var done atomic.Int64
	slots := make(chan struct{}, dawdlers)
	tick := time.NewTicker(time.Duration(float64(time.Second) / p.rate))
	defer tick.Stop()
	for n := 0; p.count == 0 || n < p.count; n++ {
		select {
		case <-ctx.Done():
			wg.Wait()
			return done.Load()
		case <-tick.C:
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ok, err := p.write(context.WithoutCancel(ctx))
			if err != nil {
				p.log.Warn("an event was not written", "error", err) // no other part relies on it
			} else if ok {
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return done.Load()
}

func (p *producer) write(ctx context.Context) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second+p.lateBy)
	defer cancel()
	var dawdle time.Duration
	if rand.Float64() < p.late {
		dawdle = time.Duration(rand.Int64N(int64(p.lateBy) + 1))
	}
	committed = rand.Float64() >= p.rollback
	kind := []string{"order", "payment", "refund"}[rand.IntN(3)]
	payload := fmt.Sprintf(`{"amount":%d}`, rand.IntN(10000))
	if p.db.sqlite {
		return committed, p.writeSQLite(ctx, kind, payload, dawdle, committed)
	}
	err = p.db.inTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO events (type, payload) VALUES ($1, $2)", kind, payload); err != nil {
			return err
		}
		cli.Pause(ctx, dawdle)
		if !committed {
			return errRollback
		}
		return nil
	})
	if errors.Is(err, errRollback) {
		err = nil
	}
	return committed, err
}

var errRollback = errors.New("rolled back on purpose")

// writeSQLite first takes an id from the application's table of ids. It does so outside of a
// transaction: SQLite has one writer at a time, so an open transaction would block all others.
func (p *producer) writeSQLite(ctx context.Context, kind, payload string, dawdle time.Duration, commit bool) error {
	var id int64
	err := p.db.QueryRowContext(ctx, "UPDATE event_ids SET next = next + 1 WHERE name = 'events' RETURNING next - 1").Scan(&id)
	if err != nil {
		return err
	}
	cli.Pause(ctx, dawdle)
	if !commit {
		return nil
	}
	_, err = p.db.ExecContext(ctx, "INSERT INTO events (id, type, payload) VALUES ($1, $2, $3)", id, kind, payload)
	return err
}

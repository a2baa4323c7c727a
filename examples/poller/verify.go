package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/examples/internal/cli"
)

// report is the result of verify.
type report struct {
	events, handled int64
	unknown         int64   // handled, but not in the table
	lost, doubled   []int64 // ids of events
	shares          []share
	terms           []turn
	longest         time.Duration // the longest time between two feeders
}

// share is how many events one worker has handled.
type share struct {
	worker string
	events int64
}

// turn is the beginning of a term, as recorded in the queue.
type turn struct {
	token, worker string
	gap           time.Duration // since the last poll of the term before
}

func (a *app) verifyCommand() *cobra.Command {
	var wait, longest time.Duration
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that every event was handled exactly once",
		Long: `Compare the table of events with the record of what was handled, and print the
handovers seen. Exits with 1 on any loss or double, and when there was nothing to check.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withDatabase(cmd, func(ctx context.Context, db *database) error {
				q, err := openQueue(a.queueURL())
				if err != nil {
					return err
				}
				defer q.close()
				r, err := verifyWithin(ctx, db, q, wait)
				if err != nil {
					return err
				}
				r.print(a.stdout)
				return r.verdict(longest)
			})
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 10*time.Second, "how long to wait for events that are on their way")
	cmd.Flags().DurationVar(&longest, "longest", 0, "fail when no worker fed for longer at a handover (0: don't)")
	return cmd
}

// unhandled selects the events without a record.
const unhandled = "SELECT id FROM events e WHERE NOT EXISTS (SELECT 1 FROM handled h WHERE h.event_id = e.id) ORDER BY id"

// verifyWithin waits until all events that are in the table now have been handled, and until all
// entries that are in the queue now are gone. New ones may be written meanwhile.
func verifyWithin(ctx context.Context, db *database, q *queue, wait time.Duration) (*report, error) {
	deadline := time.Now().Add(wait)
	r := &report{}
	err := r.awaitHandled(ctx, db, deadline)
	if err == nil {
		err = awaitDrained(ctx, q, deadline)
	}
	for _, read := range []func() error{
		func() error { return r.readCounts(ctx, db) },
		func() error { return r.readShares(ctx, db) },
		func() error { return r.readTerms(ctx, q) },
	} {
		if err == nil {
			err = read()
		}
	}
	return r, err
}

// awaitHandled determines which events are lost: those that were in the table at the beginning and
// have no record at the deadline.
func (r *report) awaitHandled(ctx context.Context, db *database, deadline time.Time) (err error) {
	if r.lost, err = db.ids(ctx, unhandled); err != nil {
		return err
	}
	for len(r.lost) > 0 && time.Now().Before(deadline) {
		cli.Pause(ctx, 100*time.Millisecond)
		now, err := db.ids(ctx, unhandled)
		if err != nil {
			return err
		}
		r.lost = slices.DeleteFunc(r.lost, func(id int64) bool {
			_, still := slices.BinarySearch(now, id)
			return !still
		})
	}
	return nil
}

// awaitDrained waits until the entries that are in the queue now are gone: a second entry of an
// event may be handled after the event was.
func awaitDrained(ctx context.Context, q *queue, deadline time.Time) error {
	last, err := q.client.XRevRangeN(ctx, queueKey, "+", "-", 1).Result()
	if err != nil {
		return fmt.Errorf("the queue: %w", err)
	}
	for len(last) > 0 && time.Now().Before(deadline) {
		left, err := q.client.XRangeN(ctx, queueKey, "-", last[0].ID, 1).Result()
		if err != nil {
			return fmt.Errorf("the queue: %w", err)
		}
		if len(left) == 0 {
			break
		}
		cli.Pause(ctx, 100*time.Millisecond)
	}
	return ctx.Err()
}

func (r *report) readCounts(ctx context.Context, db *database) (err error) {
	for _, c := range []struct {
		n     *int64
		query string
	}{
		{&r.events, "SELECT COUNT(*) FROM events"},
		{&r.handled, "SELECT COUNT(*) FROM handled"},
		{&r.unknown, "SELECT COUNT(*) FROM handled h WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.id = h.event_id)"},
	} {
		if err := db.QueryRowContext(ctx, c.query).Scan(c.n); err != nil {
			return fmt.Errorf("reading the tables: %w", err)
		}
	}
	r.doubled, err = db.ids(ctx, "SELECT event_id FROM doubled ORDER BY event_id")
	return err
}

func (db *database) ids(ctx context.Context, query string) ([]int64, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("reading the tables: %w", err)
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

func (r *report) readShares(ctx context.Context, db *database) error {
	rows, err := db.QueryContext(ctx, "SELECT worker, COUNT(*) FROM handled GROUP BY worker ORDER BY worker")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var s share
		if err := rows.Scan(&s.worker, &s.events); err != nil {
			return err
		}
		r.shares = append(r.shares, s)
	}
	return rows.Err()
}

func (r *report) readTerms(ctx context.Context, q *queue) error {
	entries, err := q.client.XRange(ctx, termsKey, "-", "+").Result()
	if err != nil {
		return fmt.Errorf("the handovers: %w", err)
	}
	for _, e := range entries {
		var ms int64
		if _, err := fmt.Sscan(fmt.Sprint(e.Values["gap_ms"]), &ms); err != nil {
			return fmt.Errorf("the handover %s: %w", e.ID, err)
		}
		t := turn{fmt.Sprint(e.Values["token"]), fmt.Sprint(e.Values["worker"]), time.Duration(ms) * time.Millisecond}
		r.terms = append(r.terms, t)
		r.longest = max(r.longest, t.gap)
	}
	return nil
}

func (r *report) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintf(t, "events in the table\t%d\n", r.events)
	fmt.Fprintf(t, "handled\t%d\n", r.handled)
	for _, s := range r.shares {
		fmt.Fprintf(t, "  by %s\t%d\n", s.worker, s.events)
	}
	fmt.Fprintf(t, "lost\t%s\n", some(r.lost))
	fmt.Fprintf(t, "queued twice\t%s\n", some(r.doubled))
	fmt.Fprintf(t, "handovers\t%d, no worker fed for at most %v\n", max(0, len(r.terms)-1), r.longest)
	for i, turn := range r.terms {
		after := "the first"
		if i > 0 {
			after = fmt.Sprintf("%v after the last poll before", turn.gap)
		}
		fmt.Fprintf(t, "  %s\ttoken %s, %s\n", turn.worker, turn.token, after)
	}
}

// some formats the number of ids, with the first of them.
func some(ids []int64) string {
	if len(ids) == 0 {
		return "0"
	}
	return fmt.Sprintf("%d: the events %v", len(ids), ids[:min(len(ids), 10)])
}

func (r *report) verdict(longest time.Duration) error {
	var problems []error
	if r.events == 0 {
		problems = append(problems, errors.New("there are no events: nothing was checked (is --db right?)"))
	}
	if len(r.lost) > 0 {
		problems = append(problems, fmt.Errorf("%d events were not handled", len(r.lost)))
	}
	if len(r.doubled) > 0 {
		problems = append(problems, fmt.Errorf("%d events were queued twice", len(r.doubled)))
	}
	if r.unknown > 0 {
		problems = append(problems, fmt.Errorf("%d events were handled that are not in the table", r.unknown))
	}
	if longest > 0 && r.longest > longest {
		problems = append(problems, fmt.Errorf("no worker fed for %v, more than %v", r.longest, longest))
	}
	return errors.Join(problems...)
}

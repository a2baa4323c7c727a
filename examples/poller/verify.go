package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// report is what verify found.
type report struct {
	events, handled int64
	lost, doubled   []int64 // ids, the first few
	nLost, nDoubled int64
	queued          int64 // entries still in the queue
	shares          []share
	terms           []turn
	longest         time.Duration // the longest time between two feeders
}

// share is what one worker has handled.
type share struct {
	worker string
	events int64
}

// turn is the begin of a term, as the queue noted it.
type turn struct {
	token, worker string
	silent        time.Duration // since the last poll of the term before
}

func (a *app) verifyCommand() *cobra.Command {
	var wait, longest time.Duration
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that every event was handled exactly once",
		Long: `Compare the table of events with the record of what was handled, and print the
hand-overs seen. Exits with 1 on any loss or double, and when there was nothing to check.`,
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
	cmd.Flags().DurationVar(&longest, "longest", 0, "fail when nobody fed for longer at a hand-over (0: don't)")
	return cmd
}

// verifyWithin asks again until everything has been handled.
func verifyWithin(ctx context.Context, db *database, q *queue, wait time.Duration) (*report, error) {
	for deadline := time.Now().Add(wait); ; pause(ctx, 200*time.Millisecond) {
		r, err := verify(ctx, db, q)
		if err != nil || ctx.Err() != nil {
			return nil, errors.Join(err, ctx.Err())
		}
		if r.nLost == 0 && r.queued == 0 || time.Now().After(deadline) {
			return r, nil
		}
	}
}

func verify(ctx context.Context, db *database, q *queue) (*report, error) {
	r := &report{}
	var err error
	counts := map[*int64]string{
		&r.events:   "SELECT COUNT(*) FROM events",
		&r.handled:  "SELECT COUNT(*) FROM handled",
		&r.nLost:    "SELECT COUNT(*) FROM events WHERE id NOT IN (SELECT event_id FROM handled)",
		&r.nDoubled: "SELECT COUNT(*) FROM doubled",
	}
	for n, query := range counts {
		err = errors.Join(err, db.QueryRowContext(ctx, query).Scan(n))
	}
	r.lost, err = db.someIDs(ctx, "SELECT id FROM events WHERE id NOT IN (SELECT event_id FROM handled) ORDER BY id LIMIT 10", err)
	r.doubled, err = db.someIDs(ctx, "SELECT event_id FROM doubled ORDER BY event_id LIMIT 10", err)
	if err != nil {
		return nil, fmt.Errorf("reading the tables: %w", err)
	}
	if err := r.readShares(ctx, db); err != nil {
		return nil, err
	}
	if r.queued, err = q.client.XLen(ctx, queueKey).Result(); err != nil {
		return nil, fmt.Errorf("the queue: %w", err)
	}
	if err := r.readTerms(ctx, q); err != nil {
		return nil, err
	}
	return r, nil
}

func (db *database) someIDs(ctx context.Context, query string, err error) ([]int64, error) {
	if err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
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
		return fmt.Errorf("the hand-overs: %w", err)
	}
	for _, e := range entries {
		var ms int64
		if _, err := fmt.Sscan(fmt.Sprint(e.Values["silent_ms"]), &ms); err != nil {
			return fmt.Errorf("the hand-over %s: %w", e.ID, err)
		}
		t := turn{fmt.Sprint(e.Values["token"]), fmt.Sprint(e.Values["worker"]), time.Duration(ms) * time.Millisecond}
		r.terms = append(r.terms, t)
		r.longest = max(r.longest, t.silent)
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
	fmt.Fprintf(t, "lost\t%d%s\n", r.nLost, list(r.lost))
	fmt.Fprintf(t, "queued twice\t%d%s\n", r.nDoubled, list(r.doubled))
	fmt.Fprintf(t, "hand-overs\t%d, nobody fed for at most %v\n", max(0, len(r.terms)-1), r.longest)
	for i, turn := range r.terms {
		after := "the first"
		if i > 0 {
			after = fmt.Sprintf("%v after the last poll before", turn.silent)
		}
		fmt.Fprintf(t, "  %s\ttoken %s, %s\n", turn.worker, turn.token, after)
	}
}

func list(ids []int64) string {
	if len(ids) == 0 {
		return ""
	}
	return fmt.Sprintf(": ids %v ...", ids)
}

func (r *report) verdict(longest time.Duration) error {
	var problems []error
	if r.events == 0 {
		problems = append(problems, errors.New("there are no events: nothing was checked (is --db right?)"))
	}
	if r.nLost > 0 {
		problems = append(problems, fmt.Errorf("%d events were not handled", r.nLost))
	}
	if r.nDoubled > 0 {
		problems = append(problems, fmt.Errorf("%d events were queued twice", r.nDoubled))
	}
	if r.handled != r.events-r.nLost {
		problems = append(problems, fmt.Errorf("%d events were handled that are not in the table", r.handled-r.events+r.nLost))
	}
	if longest > 0 && r.longest > longest {
		problems = append(problems, fmt.Errorf("nobody fed for %v, more than %v", r.longest, longest))
	}
	return errors.Join(problems...)
}

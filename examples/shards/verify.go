package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/examples/internal/cli"
)

// report is the result of verify.
type report struct {
	tenants, ordered, invoices int64
	lost, doubled              int64
	crossed                    []string // writes of a former owner after a write of its successor
	members                    map[string]int64
	shards, moves              int
	longest                    time.Duration // between two writers of a shard
}

// row is an invoice, with the columns that verify checks.
type row struct {
	tenant, member       string
	number, shard, token int64
	written              int64 // ms
}

func (a *app) verifyCommand() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that every order was invoiced exactly once, and no tenant by two members at a time",
		Long: `Check that every order was invoiced exactly once, without a gap, and that the tokens of
each tenant only grow, each in the hands of one member. Exits with 1 on any loss, double or
crossing, and when there was nothing to check.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withDatabase(cmd, func(ctx context.Context, db *database) error {
				r, err := verifyWithin(ctx, db, wait)
				if err != nil {
					return err
				}
				r.print(a.stdout)
				return r.verdict()
			})
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 10*time.Second, "how long to wait for invoices that are still open")
	return cmd
}

// verifyWithin waits until no invoice is open, and then checks all that were written.
func verifyWithin(ctx context.Context, db *database, wait time.Duration) (*report, error) {
	for deadline := time.Now().Add(wait); ; cli.Pause(ctx, 100*time.Millisecond) {
		open, err := db.open(ctx, func(string) bool { return true })
		if err != nil {
			return nil, err
		}
		if len(open) == 0 || time.Now().After(deadline) || ctx.Err() != nil {
			break
		}
	}
	r := &report{members: map[string]int64{}}
	ordered, err := db.ordered(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range ordered {
		r.tenants, r.ordered = r.tenants+1, r.ordered+n
	}
	err = r.read(ctx, db, ordered)
	return r, err
}

// ordered returns how many invoices each tenant must have.
func (db *database) ordered(ctx context.Context) (map[string]int64, error) {
	rows, err := db.QueryContext(ctx, "SELECT tenant, ordered FROM tenants")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]int64{}
	for rows.Next() {
		var tenant string
		var n int64
		if err := rows.Scan(&tenant, &n); err != nil {
			return nil, err
		}
		all[tenant] = n
	}
	return all, rows.Err()
}

// read checks the invoices in the order in which they were written.
func (r *report) read(ctx context.Context, db *database, ordered map[string]int64) error {
	rows, err := db.QueryContext(ctx, "SELECT tenant, number, shard, token, member, written FROM invoices ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	last, writers, byShard := map[string]int64{}, map[string]row{}, map[int64]row{}
	for rows.Next() {
		var i row
		if err := rows.Scan(&i.tenant, &i.number, &i.shard, &i.token, &i.member, &i.written); err != nil {
			return err
		}
		r.invoices++
		r.members[i.member]++
		if i.number <= last[i.tenant] {
			r.doubled++
		} else {
			r.lost += i.number - last[i.tenant] - 1 // an invoice that comes later is out of order, and counts as lost and as doubled
			last[i.tenant] = i.number
		}
		if before, known := writers[i.tenant]; known {
			r.compare(before, i)
		}
		if before, known := byShard[i.shard]; known {
			r.count(before, i)
		}
		writers[i.tenant], byShard[i.shard] = i, i
	}
	for tenant, n := range ordered {
		r.lost += max(0, n-last[tenant])
	}
	for tenant, n := range last {
		r.doubled += max(0, n-ordered[tenant]) // these were never ordered
	}
	r.shards = len(byShard)
	return rows.Err()
}

// compare checks two successive invoices of a tenant.
func (r *report) compare(before, i row) {
	another := i.member != before.member || i.shard != before.shard
	if i.token < before.token || i.token == before.token && another {
		r.crossed = append(r.crossed, fmt.Sprintf("%s: %s wrote with token %d of shard %d after %s with token %d of shard %d",
			i.tenant, i.member, i.token, i.shard, before.member, before.token, before.shard))
	}
}

// count counts a move if two successive invoices of a shard are by different members.
func (r *report) count(before, i row) {
	if i.member != before.member {
		r.moves++
		r.longest = max(r.longest, time.Duration(i.written-before.written)*time.Millisecond)
	}
}

func (r *report) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer t.Flush()
	fmt.Fprintf(t, "ordered\t%d, by %d tenants\n", r.ordered, r.tenants)
	fmt.Fprintf(t, "invoices\t%d, in %d shards\n", r.invoices, r.shards)
	for _, m := range slices.Sorted(maps.Keys(r.members)) {
		fmt.Fprintf(t, "  by %s\t%d\n", m, r.members[m])
	}
	fmt.Fprintf(t, "lost\t%d\n", r.lost)
	fmt.Fprintf(t, "doubled\t%d\n", r.doubled)
	fmt.Fprintf(t, "tokens crossed\t%d\n", len(r.crossed))
	fmt.Fprintf(t, "next writer\t%d times, at most %v after the one before\n", r.moves, r.longest)
}

func (r *report) verdict() error {
	var problems []error
	if r.ordered == 0 {
		problems = append(problems, errors.New("there are no orders: nothing was checked (is --db right?)"))
	}
	if r.lost > 0 {
		problems = append(problems, fmt.Errorf("%d orders were not invoiced in their turn", r.lost))
	}
	if r.doubled > 0 {
		problems = append(problems, fmt.Errorf("%d invoices too many", r.doubled))
	}
	for _, c := range r.crossed[:min(len(r.crossed), 10)] {
		problems = append(problems, errors.New(c))
	}
	return errors.Join(problems...)
}

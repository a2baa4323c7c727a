package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mandate-dev/mandate/examples/internal/cli"
)

// verify waits until all orders are invoiced, and checks that each was invoiced exactly once, in its
// turn, and that no former owner of a tenant has written after its successor.
func (db *database) verify(ctx context.Context, out io.Writer) error {
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); cli.Pause(ctx, 100*time.Millisecond) {
		if open, err := db.open(ctx); err != nil || len(open) == 0 {
			break
		}
	}
	ordered, invoiced, moves := 0, 0, 0
	if err := db.QueryRowContext(ctx, "SELECT COALESCE(SUM(ordered), 0) FROM tenants").Scan(&ordered); err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, "SELECT tenant, number, shard, token, member FROM invoices ORDER BY id")
	if err != nil {
		return err
	}
	defer rows.Close()
	var problems []error
	last, owner := map[string]invoice{}, map[int]string{}
	for rows.Next() {
		var i invoice
		if err := rows.Scan(&i.tenant, &i.number, &i.shard, &i.token, &i.member); err != nil {
			return err
		}
		before := last[i.tenant]
		last[i.tenant] = i
		invoiced++
		if was := owner[i.shard]; was != "" && was != i.member {
			moves++
		}
		owner[i.shard] = i.member
		if i.number != before.number+1 {
			problems = append(problems, fmt.Errorf("lost or doubled: %s: invoice %d after %d", i.tenant, i.number, before.number))
		}
		if i.token < before.token || i.token == before.token && i.member != before.member {
			problems = append(problems, fmt.Errorf("crossed: %s: %s wrote with token %d after %s with %d", i.tenant, i.member, i.token, before.member, before.token))
		}
	}
	if ordered == 0 || ordered != invoiced {
		problems = append(problems, fmt.Errorf("%d orders, %d invoices", ordered, invoiced))
	}
	fmt.Fprintf(out, "%d orders, %d invoices, %d times by another member than before; lost, doubled or crossed: %d\n", ordered, invoiced, moves, len(problems))
	return errors.Join(append(problems, rows.Err())...)
}

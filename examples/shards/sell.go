package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// sellCommand simulates the shop, which knows nothing of shards.
func (a *app) sellCommand() *cobra.Command {
	var tenants, count int
	var rate float64
	cmd := &cobra.Command{
		Use:   "sell",
		Short: "Play the shop: tenants order, and each order is to be invoiced",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if tenants < 1 || count < 0 || !(rate > 0 && rate <= 1e6) {
				return errors.New("--tenants must be at least 1, --rate above 0 and at most a million, --count not negative")
			}
			return a.withDatabase(cmd, func(ctx context.Context, db *database) error {
				tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
				defer tick.Stop()
				n := 0
				for ; (count == 0 || n < count) && ctx.Err() == nil; n++ {
					if err := db.sell(context.WithoutCancel(ctx), "tenant-"+strconv.Itoa(rand.IntN(tenants)+1)); err != nil {
						return err
					}
					select {
					case <-ctx.Done():
					case <-tick.C:
					}
				}
				fmt.Fprintf(a.stdout, "%d orders\n", n)
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&tenants, "tenants", 60, "how many tenants order")
	f.IntVar(&count, "count", 0, "how many orders (0: no end)")
	f.Float64Var(&rate, "rate", 60, "orders per second")
	return cmd
}

func (db *database) sell(ctx context.Context, tenant string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err := db.ExecContext(ctx, "INSERT INTO tenants (tenant, ordered, invoiced) VALUES ($1, 1, 0) "+
		"ON CONFLICT (tenant) DO UPDATE SET ordered = tenants.ordered + 1", tenant)
	return err
}

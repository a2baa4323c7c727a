//go:build unix

package realtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

const childEnv = "MANDATE_REALTEST_CHILD"

// child is the test binary as a process of its own: one candidate at the URL
// that the environment names. It reports whether it was elected, or why not.
func child() {
	q, err := elector.Open(os.Getenv(childEnv))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer q.Close()
	e, err := elector.New(q, elector.Config{Election: "orders", Lease: lease, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	time.AfterFunc(lease, func() {
		if !e.IsLeader() {
			fmt.Println(e.Check())
		}
		cancel()
	})
	if err := e.Run(ctx, func(ctx context.Context, _ *elector.Term) error {
		fmt.Println("elected")
		cancel()
		<-ctx.Done()
		return nil
	}); err != nil {
		fmt.Println(err)
	}
}

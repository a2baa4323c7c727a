package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// Regression: a query that the end of --timeout cut off counted as nodes that do not answer.
func TestWaitEndsInTheMiddleOfAQuery(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		e, err := elector.New(r.Quorum("a"), elector.Config{Election: "orders", ID: "a", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- e.Run(ctx, func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil })
		}()
		r.Lead(e)
		el, err := r.Quorum("operator").Election("orders")
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			since := time.Since(e.Term().Since())
			time.AfterFunc(1200*time.Millisecond, func() {
				heal := r.CutOff("operator")
				time.AfterFunc(time.Second, heal)
			})
			// It queries again when the leader has led for long enough: half a second before the end.
			_, err = awaitLeader(ctx, el, waitFlags{led: since + 1500*time.Millisecond, timeout: 2 * time.Second})
			if exit := (*exitError)(nil); !errors.As(err, &exit) || exit.code != exitNoLeader {
				t.Fatalf("%v", err)
			}
			electortest.Advance(5 * time.Second)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

package main

import (
	"context"
	"os/signal"
	"syscall"
	"time"
)

// untilSignal returns a context that the first SIGINT or SIGTERM ends. A second one ends the process.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// sendTo sends a value unless ctx ends before.
func sendTo[T any](ctx context.Context, to chan<- T, v T) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}

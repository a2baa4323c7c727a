package elector

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/callback"
)

// warming runs a candidate's Config.Warm.
type warming struct {
	mu     sync.Mutex // of all below
	cancel context.CancelFunc
}

// run calls warm and blocks until it returns; only one call runs at a time. A panic of warm becomes
// an error: it must not end this process while another candidate leads.
func (w *warming) run(ctx context.Context, limit time.Duration, warm func(context.Context) error, log *slog.Logger) error {
	if warm == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w.mu.Lock()
	if w.cancel != nil {
		w.mu.Unlock()
		return failed(nil, "an earlier Warm has not returned")
	}
	w.cancel = cancel
	w.mu.Unlock()
	began := time.Now()
	log.Info("getting warm for leadership", "at_most", unit(limit))
	err := callback.Call(func() error { return warm(ctx) })
	w.mu.Lock()
	w.cancel = nil
	w.mu.Unlock()
	if err != nil {
		log.Warn("not warm for leadership", "took", unit(time.Since(began)), "error", err)
		return err
	}
	log.Info("warm for leadership", "took", unit(time.Since(began)))
	return nil
}

// stop cancels the context of a Warm that is running: the work begins.
func (w *warming) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
}

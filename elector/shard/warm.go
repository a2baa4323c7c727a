package shard

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/callback"
)

// warms are the shards whose Config.Warm runs. A call of Warm may outlive its candidacy.
type warms struct {
	mu      sync.Mutex
	running map[int]bool
}

func (w *warms) begin(shard int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[shard] {
		return false
	}
	if w.running == nil {
		w.running = map[int]bool{}
	}
	w.running[shard] = true
	return true
}

func (w *warms) end(shard int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, shard)
}

var errStillWarms = errors.New("an earlier Warm of the shard has not returned")

// run calls Config.Warm for a shard, and returns when Warm has returned or ctx has ended. A panic in
// Warm becomes an error: it must not end the process, and with it the work of the shards it owns.
func (w *warms) run(ctx context.Context, shard int, warm func(context.Context, int) error) error {
	if !w.begin(shard) {
		return errStillWarms
	}
	done := make(chan error, 1)
	go func() {
		err := callback.Call(func() error { return warm(ctx, shard) })
		w.end(shard)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// get calls Config.Warm for a shard that another member owns, and then reports its error; nil also
// when the limit is over. After the end of ctx, or cancel, it reports nothing. It does not block.
func (w *warms) get(ctx context.Context, shard int, limit time.Duration, warm func(context.Context, int) error, log *slog.Logger, report func(error)) (cancel context.CancelFunc) {
	ctx, cancel = context.WithTimeout(ctx, limit)
	go func() {
		defer cancel()
		began := time.Now()
		err := w.run(ctx, shard, warm)
		took := time.Since(began).Round(time.Millisecond)
		switch {
		case errors.Is(ctx.Err(), context.Canceled): // this member owns the shard, or should no longer own it
			return
		case ctx.Err() != nil:
			log.Warn("not warm for a shard in time, taking it over all the same", "waited", took)
			err = nil
		case err != nil:
			log.Warn("cannot get warm for a shard", "took", took, "error", err)
		default:
			log.Info("warm for a shard", "took", took)
		}
		report(err)
	}()
	return cancel
}

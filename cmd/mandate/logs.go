package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

func handlerFor(w io.Writer, name string, level slog.Level) slog.Handler {
	switch name {
	case "json":
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: withUnit})
	case "text":
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	default: // prepare has reported the unknown format
		return slog.DiscardHandler
	}
}

// withoutEnd leaves out the error that ends Run: it is printed when this process ends.
type withoutEnd struct{ slog.Handler }

func (h withoutEnd) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "run ended" {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h withoutEnd) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutEnd{h.Handler.WithAttrs(attrs)}
}

// withUnit formats a duration as the text log does: slog's JSON handler would omit the unit.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// redisLog is the logger of go-redis, which by itself prints connection errors to stderr: the elector logs the same errors
// once, with advice.
type redisLog struct{ *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.DebugContext(ctx, "go-redis", "message", fmt.Sprintf(format, v...))
}

// logQueue is a Writer that never blocks: a goroutine writes the lines in order, and a line without
// room is dropped. Otherwise a pipe whose reader hangs (a log driver, Ctrl-S in a terminal) would delay
// a shutdown, a kill, or a step-down. It is safe for concurrent use.
type logQueue struct {
	lines chan []byte   // nil: the last one
	done  chan struct{} // closed when all lines are written
	lost  atomic.Int64  // lines that were dropped, and not reported yet
}

// maxQueued is how many lines can wait for the reader: enough for a reader that pauses, and some 200
// KiB of memory.
const maxQueued = 1024

// newLogQueue starts a queue in front of w. warn writes to w how many lines were dropped.
func newLogQueue(w io.Writer, warn func(lost int64) error) *logQueue {
	q := &logQueue{lines: make(chan []byte, maxQueued), done: make(chan struct{})}
	go func() {
		defer close(q.done)
		for line := <-q.lines; line != nil; line = <-q.lines {
			if lost := q.lost.Swap(0); lost > 0 && warn(lost) != nil {
				q.lost.Add(lost)
			}
			// A reader that is gone may come back (a named pipe), so every write is tried.
			if _, err := w.Write(line); err != nil {
				q.lost.Add(1)
			}
		}
	}()
	return q
}

// Write queues a copy of text, or drops it at once if there is no room. It never fails.
func (q *logQueue) Write(text []byte) (int, error) {
	select {
	case q.lines <- append([]byte{}, text...):
	default:
		q.lost.Add(1)
	}
	return len(text), nil
}

// close blocks until everything is written, but at most for wait. Further lines are dropped.
func (q *logQueue) close(wait time.Duration) {
	limit := time.After(wait)
	select {
	case q.lines <- nil:
	case <-limit:
		return
	}
	select {
	case <-q.done:
	case <-limit:
	}
}

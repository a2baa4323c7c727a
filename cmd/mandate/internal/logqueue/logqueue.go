// Package logqueue keeps a log from blocking the program that writes it. Without it, a pipe whose
// reader hangs (a log driver, Ctrl-S in a terminal) would delay a shutdown, a kill, or a step-down.
package logqueue

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// most is how many writes can wait for the reader: enough for a reader that pauses, and some 200
// KiB of memory.
const most = 1024

var errFull = errors.New("the log's reader is too slow")

// Queue is a Writer that never blocks: one goroutine writes the queued lines in order, and a Write
// without room is refused. It is safe for concurrent use.
type Queue struct {
	w    io.Writer
	lost atomic.Int64 // records that were dropped, and not reported yet

	mu              sync.Mutex // guards started, closed and sending to lines
	started, closed bool
	lines           chan []byte
	done            chan struct{} // closed when all lines are written
}

// New returns a queue in front of w. It starts its goroutine with the first Write.
func New(w io.Writer) *Queue {
	return &Queue{w: w, lines: make(chan []byte, most), done: make(chan struct{})}
}

func (q *Queue) run() {
	defer close(q.done)
	for line := range q.lines {
		// A reader that is gone may come back (a named pipe), so every write is tried.
		if _, err := q.w.Write(line); err != nil {
			q.lost.Add(1)
		}
	}
}

// Write queues a copy of line, or returns an error at once if there is no room.
func (q *Queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, io.ErrClosedPipe
	}
	if !q.started {
		q.started = true
		go q.run()
	}
	select {
	case q.lines <- append([]byte(nil), line...):
		return len(line), nil
	default:
		return 0, errFull
	}
}

// Close blocks until everything is written, but at most for wait. Further writes are refused.
func (q *Queue) Close(wait time.Duration) {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.lines)
	}
	started := q.started
	q.mu.Unlock()
	if !started {
		return
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-q.done:
	case <-limit.C:
	}
}

// Handler is a slog.Handler whose records go through a queue. It counts dropped records, and logs
// their number as soon as there is room again.
type Handler struct {
	queue *Queue
	plain slog.Handler // without the attributes and groups of a logger
	inner slog.Handler
}

// NewHandler returns a handler that formats as inner, which writes to q.
func NewHandler(q *Queue, inner slog.Handler) *Handler { return &Handler{q, inner, inner} }

// Enabled calls that of the inner handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

// Handle never blocks and never returns an error.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if n := h.queue.lost.Swap(0); n > 0 {
		gap := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: the log's reader is gone or too slow", 0)
		gap.AddAttrs(slog.Int64("count", n))
		if h.plain.Handle(ctx, gap) != nil {
			h.queue.lost.Add(n)
		}
	}
	if h.inner.Handle(ctx, r) != nil {
		h.queue.lost.Add(1)
	}
	return nil
}

// WithAttrs adds attributes to the inner handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.queue, h.plain, h.inner.WithAttrs(attrs)}
}

// WithGroup opens a group in the inner handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.queue, h.plain, h.inner.WithGroup(name)}
}

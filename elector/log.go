package elector

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// background is a log handler that writes in the background, in order: a handler that blocks must not keep a
// lock, nor delay a renewal.
type background struct {
	slog.Handler

	*lines
}

func (b background) Handle(ctx context.Context, r slog.Record) error {
	ctx, r = context.WithoutCancel(ctx), r.Clone()
	b.put(func(lost int) {
		if lost > 0 && b.Enabled(ctx, slog.LevelWarn) {
			warning := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: the log's reader is gone or too slow", 0)
			warning.AddAttrs(slog.Int("count", lost))
			_ = b.Handler.Handle(ctx, warning)
		}
		_ = b.Handler.Handle(ctx, r)
	})
	return nil
}

func (b background) WithAttrs(attrs []slog.Attr) slog.Handler {
	return background{b.Handler.WithAttrs(attrs), b.lines}
}

func (b background) WithGroup(name string) slog.Handler {
	return background{b.Handler.WithGroup(name), b.lines}
}

// maxLines is how many lines wait for a handler that blocks. Newer ones are lost, and counted.
const maxLines = 256

// lines are the lines of one candidate that the handler has not written yet. The zero value is ready.
type lines struct {
	mu      sync.Mutex // of all below
	waiting []func(lost int)
	lost    int           // lines that were dropped, and not reported yet
	idle    chan struct{} // closed when nothing waits; nil: nothing does
}

func (l *lines) put(write func(lost int)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) < maxLines {
		l.waiting = append(l.waiting, write)
	} else {
		l.lost++
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
		go l.write()
	}
}

func (l *lines) write() {
	for {
		l.mu.Lock()
		if len(l.waiting) == 0 {
			close(l.idle)
			l.waiting, l.idle = nil, nil
			l.mu.Unlock()
			return
		}
		write, lost := l.waiting[0], l.lost
		l.waiting, l.lost = l.waiting[1:], 0
		l.mu.Unlock() // put must not wait for a handler that blocks
		write(lost)
	}
}

// flush blocks until all lines are written, for at most limit.
func (l *lines) flush(limit time.Duration) {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(limit):
	}
}

package elector

import (
	"context"
	"time"
)

// truth is the answer to a question about who leads, and what had been told
// before it was asked.
type truth struct {
	Status

	err     error
	told    []Event
	skipped int
}

// question asks Redis, on a goroutine of its own: a node that hangs must not
// hold back what this candidate does meanwhile.
func (o *observer) question(ctx context.Context) <-chan truth {
	answer, known := make(chan truth, 1), o.elected
	var t truth
	o.mu.Lock()
	t.told, t.skipped = o.told, o.skipped
	o.told, o.skipped = nil, 0
	o.mu.Unlock()
	go func() {
		t.Status, t.err = o.e.quorum.look(ctx, o.e.keys, o.e.cfg.Election)
		if t.err == nil && t.Leader != nil && t.Leader.Token > known {
			t.Leader.Since = o.e.quorum.since(ctx, o.e.keys, t.Leader.Token)
		}
		answer <- t
	}()
	return answer
}

// trust notes for how long the answer holds.
func (o *observer) trust(l *Leader) {
	o.leased = time.Time{}
	if l != nil {
		o.leased = time.Now().Add(l.Left)
	}
	o.e.unknown.Store(false)
}

// doubt says that nobody knows who leads, once the lease that was seen last has
// run out: whoever asks must not be sent to a leader that is long gone.
func (o *observer) doubt(ctx context.Context) {
	if ctx.Err() == nil && !o.leased.IsZero() && time.Now().After(o.leased) {
		o.e.unknown.Store(true)
	}
}

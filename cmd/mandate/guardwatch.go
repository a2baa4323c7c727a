package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
)

// guardWatch replaces a guard that another process has killed. It replaces the first one at once;
// if the new guard dies too, it waits for a pause that doubles up to the time between two
// extensions.
type guardWatch struct {
	p   guarded
	log *slog.Logger

	gone  <-chan struct{}  // closed when the guard has ended; nil: the end was seen already
	again <-chan time.Time // when the next guard is due

	maxPause time.Duration
	without  time.Duration // how long the command may run without a guard

	pause    time.Duration
	since    time.Time // when the command was last guarded
	startErr error     // why the last guard could not be started
}

// guarded is the part of supervise.Process that guardWatch uses.
type guarded interface {
	GuardGone() <-chan struct{}
	GuardPID() int
	ReplaceGuard() error
}

// extended is called after an extension of the guard's deadline. If the guard is alive, its next
// death counts as a new condition.
func (w *guardWatch) extended() {
	if w.again == nil {
		w.pause, w.since = 0, time.Now()
	}
}

// lost is called when the guard was killed, and schedules another one.
func (w *guardWatch) lost() {
	w.gone = nil
	w.again = time.After(w.pause)
	w.pause = min(max(2*w.pause, time.Millisecond), w.maxPause)
}

// replace starts another guard. A machine on which no guard survives for half a lease is not fit to
// lead: the returned error ends the command while this process can still end it itself.
func (w *guardWatch) replace() error {
	err := w.p.ReplaceGuard()
	if err == nil {
		w.log.Warn("guard process was killed and replaced", "guard", w.p.GuardPID())
		w.gone, w.again = w.p.GuardGone(), nil
	} else {
		if w.startErr == nil {
			w.log.Error("guard process was killed and cannot be replaced; the command continues if mandate is suspended", "error", err)
		}
		w.lost()
	}
	if w.startErr = err; time.Since(w.since) <= w.without {
		return nil
	}
	if err == nil {
		err = errKilledAgain
	}
	return fmt.Errorf("%w: %s: %w", supervise.ErrStart, supervise.GuardName, err)
}

var errKilledAgain = errors.New("killed again and again")

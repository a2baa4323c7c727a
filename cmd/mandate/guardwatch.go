package main

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
)

// guardWatch replaces a guard that another process has killed: at once, and when the new
// one dies too, after pauses that double up to the time between two extensions.
type guardWatch struct {
	p   guarded
	log *slog.Logger

	gone  <-chan struct{}  // the guard has ended; nil: that is known
	again <-chan time.Time // another one is due

	maxPause time.Duration
	without  time.Duration // how long the command may run without a guard

	pause    time.Duration
	since    time.Time // when the command was guarded last
	startErr error     // of the last guard that could not be started
}

// guarded is what a guardWatch needs of a supervise.Process.
type guarded interface {
	GuardGone() <-chan struct{}
	GuardPID() int
	ReplaceGuard() error
}

// extended: the guard got a later deadline and lives, so its next death is a new condition.
func (w *guardWatch) extended() {
	if w.again == nil {
		w.pause, w.since = 0, time.Now()
	}
}

// lost: the guard was killed.
func (w *guardWatch) lost() {
	w.gone = nil
	w.again = time.After(w.pause)
	w.pause = min(max(2*w.pause, time.Millisecond), w.maxPause)
}

// replace starts another guard. A machine that keeps none for half a lease is not fit to
// lead: the error ends the command while this process can still end it itself.
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

package health

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Heartbeat is a work probe that the work itself keeps alive: it calls Beat when it has
// made progress, and Check fails when no beat came within the bound. It detects a leader
// that is alive and renews its lease for ever, but does nothing.
//
// Call Beat where a unit of work is done: after the batch is written, after the empty poll
// came back. Don't call it in a timer or a separate goroutine, nor at the head of a retry
// loop: there it beats even when nothing moves. The bound must be longer than the longest
// unit of work.
//
// A heartbeat passes only while it is armed, which [Runner.RunArmed] does for a term. In an
// elector it belongs in Config.WorkProbe; as a candidate probe it would shut out every
// candidate permanently, so an unarmed Check fails with that reason. Its failures are
// [Definite]: the bound is the threshold, so a Runner notices a stall within bound and [Settings.Interval],
// and in an [All] once the other probes of that run have answered too.
//
// All methods are safe for concurrent use. Use one heartbeat for one runner: a heartbeat that
// several electors share stays armed until the last of their terms has ended, but the work of
// one elector keeps it alive for all, and hides that the work of another stalls.
type Heartbeat struct {
	bound time.Duration
	base  time.Time
	last  atomic.Int64 // nanoseconds from base to the last beat, monotonic
	armed atomic.Int32 // by how many runners
}

// NewHeartbeat returns a heartbeat whose beats must be less than bound apart. With a bound below
// 1 ms it never passes: NewRunner refuses it, and Check returns the reason.
func NewHeartbeat(bound time.Duration) *Heartbeat {
	return &Heartbeat{bound: bound, base: time.Now()}
}

// Beat records that the work made progress. It takes tens of nanoseconds, allocates
// nothing, takes no lock, and may be called from any goroutine, armed or not.
func (h *Heartbeat) Beat() { h.last.Store(int64(time.Since(h.base))) }

// Arm starts the watch and counts as the first beat.
func (h *Heartbeat) Arm() {
	h.Beat()
	h.armed.Add(1)
}

// Disarm ends the watch that one Arm has started.
func (h *Heartbeat) Disarm() {
	for {
		n := h.armed.Load()
		if n == 0 || h.armed.CompareAndSwap(n, n-1) {
			return
		}
	}
}

var errUnarmed = errors.New("heartbeat is not armed: it is a work probe, which passes only while the work runs; " +
	"it belongs in elector.Config.WorkProbe (or Runner.RunArmed), not among the candidate probes")

// Check returns nil while the last beat is younger than the bound. It never blocks and
// doesn't look at ctx.
func (h *Heartbeat) Check(context.Context) error {
	if err := h.problem(); err != nil {
		return Definite(err)
	}
	if h.armed.Load() == 0 {
		return errUnarmed
	}
	if since := time.Since(h.base) - time.Duration(h.last.Load()); since >= h.bound {
		return Definite(fmt.Errorf("no progress for %s (bound %s)", short(since), h.bound))
	}
	return nil
}

// problem returns why the heartbeat can never pass.
func (h *Heartbeat) problem() error {
	if h.bound >= time.Millisecond {
		return nil
	}
	return fmt.Errorf("heartbeat has a bound of %s: give NewHeartbeat at least 1ms (was the unit forgotten, as in 5 instead of 5*time.Second?)", h.bound)
}

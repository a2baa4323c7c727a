package elector

import (
	"context"
	"errors"
	"time"
)

// warmer delays a planned end of a term until the next leader is warm. Its fields belong to the
// state machine's goroutine.
type warmer struct {
	m      *machine
	term   *Term
	reason Reason
	err    error
	warmed chan *handover // gets the handover, nil for the heir as without Warm; a nil channel: no end is planned
	cancel context.CancelFunc
}

// warms reports whether a planned end of a term waits until the next leader is warm.
func (c *Config) warms() bool { return c.Warm != nil && c.WarmTimeout != 0 }

// plan ends the term, with Config.Warm once its heir is warm. A second call changes nothing.
func (w *warmer) plan(reason Reason, err error) {
	m := w.m
	switch {
	case w.waits():
		return
	case !m.cfg.warms():
		w.term.end(reason, err)
		return
	}
	ctx, cancel := context.WithTimeout(m.runCtx, m.cfg.WarmTimeout)
	warmed := make(chan *handover, 1)
	w.reason, w.err, w.warmed, w.cancel = reason, err, warmed, cancel
	to := ""
	if h := w.term.handTo.Load(); h != nil {
		to = h.to
	}
	m.voter.Go(func() { warmed <- m.warmHeir(ctx, w.term.token, to) })
}

func (w *warmer) waits() bool { return w.warmed != nil }

// take ends the term as planned, in favour of h if that is not nil.
func (w *warmer) take(h *handover) {
	if h != nil {
		h.why = w.err
		w.term.handTo.Store(h) // renewals and the release name it
	}
	w.term.end(w.reason, w.err)
}

// stop ends the wait for the heir: the term has ended.
func (w *warmer) stop() {
	if w.waits() {
		w.cancel()
	}
}

// warmHeir has the candidates that should lead next get warm, one after the other until one is warm,
// and returns a handover to that one. If none can, no candidate goes first. It blocks until ctx ends
// at most, and then returns nil: the candidate goes first that would have done so anyway.
func (m *machine) warmHeir(ctx context.Context, token uint64, to string) *handover {
	heirs := m.peers.Heirs()
	if to != "" {
		heirs = append([]string{to}, heirs...)
	}
	began := time.Now()
	for i, heir := range heirs {
		if i > 0 && heir == to {
			continue
		}
		end, _ := ctx.Deadline()
		err := m.peers.Warm(ctx, token, heir, time.Until(end))
		switch {
		case errors.Is(ctx.Err(), context.Canceled): // the term has ended otherwise
			return nil
		case ctx.Err() != nil:
			m.log.Warn("next leader is not warm in time, handing over all the same", "waited", unit(time.Since(began)))
			return nil
		case err == nil:
			m.log.Info("next leader is warm", "waited", unit(time.Since(began)))
			return &handover{to: heir}
		}
		m.log.Warn("candidate cannot get warm, passing it over", "incarnation", heir, "error", err)
	}
	if len(heirs) == 0 {
		return nil
	}
	return &handover{cold: true}
}

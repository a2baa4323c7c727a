package elector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

var errMaxTerm = errors.New("the maximum length of a term has been reached")

// leadership serves one term: it starts the work (workrun.go), holds the lease (renew.go), stops the
// work and waits for it (drain), and releases the lock (release.go). Its fields belong to the state
// machine's goroutine.
type leadership struct {
	m         *machine
	ctx       context.Context // of Run; for Campaign, one that ends when the Quorum is closed
	term      *Term
	lease     *renewer
	maxTerm   <-chan time.Time // fires after MaxTerm; nil: no limit, or it has fired
	tried     chan error       // gets the result of try, nil if another candidate could take the lock; nil until MaxTerm
	disarm    func()           // stops the work's probe
	probeDone <-chan struct{}  // closed when the runner of the work's probe has returned
	run       workRun
	outcome   *outcome // set when the work has returned

	announced chan struct{} // closed when the election has been announced; the end of the term is announced after that
}

// startTerm arms the deadline, becomes leader, and starts the work. The term ends when ctx does: that
// of Run, or for Campaign one that ends when the Quorum is closed.
func (m *machine) startTerm(ctx context.Context, term *Term, work Work) *leadership {
	m.supervisor.Elected(m.supervised(term)) // first: the process may be killed as soon as the work runs
	l := &leadership{
		m: m, ctx: ctx, term: term, lease: m.newRenewer(term),
		run: m.newWorkRun(term), announced: make(chan struct{}),
	}
	if m.cfg.MaxTerm > 0 {
		l.maxTerm = time.After(m.cfg.MaxTerm)
	}
	term.guard(m.timing.RenewEvery())
	m.term.Store(term)
	elected := m.termEvent(EventElected, term, nil)
	m.become(roleLeading, &elected, slog.Uint64("token", term.token))
	l.disarm, l.probeDone = m.probes.arm()
	recorded := elected
	recorded.Vacant = m.memory.vacant(m.clock)
	before := m.memory.reported
	m.memory.reported = l.run.reported
	go l.run.serve(work, func() {
		defer close(l.announced)
		if before != nil {
			<-before
		}
		m.voter.Announce(quorum.Report{Event: recorded.encode(), Head: elected.message().Head()})
	})
	return l
}

// lead serves a term until the lock is released. It returns only after the work has.
func (l *leadership) lead() *Ended {
	l.hold()
	ended := l.stop()
	l.drain()
	if ended.Reason == ReasonUnhealthy || !l.term.grant.Valid() {
		l.m.wasUnable()
	}
	l.release(ended)
	if l.outcome.fatal {
		select {} // Run must not return: main could end the process well before the panic does
	}
	return ended
}

// stop logs and publishes that the term has ended, and how.
func (l *leadership) stop() *Ended {
	ended := l.ended()
	ev := l.m.termEvent(EventStopping, l.term, ended)
	attrs := []slog.Attr{
		slog.Uint64("token", l.term.token), slog.String("reason", string(ended.Reason)),
		slog.String("led_for", unit(time.Since(l.term.since))),
	}
	if ended.Err != nil {
		attrs = append(attrs, slog.String("detail", ended.detail()))
	}
	l.m.become(roleStopping, &ev, attrs...)
	return ended
}

// hold renews the lease until the term ends, for whichever reason comes first.
func (l *leadership) hold() {
	for l.term.ctx.Err() == nil {
		changed := l.m.probes.changes() // before the status is read, so that no change is missed
		if err := l.m.probes.failing(); err != nil {
			l.unhealthy(err)
			return
		}
		select {
		case <-l.term.ctx.Done():
		case out := <-l.run.done:
			l.returned(out)
		case <-l.ctx.Done():
			l.term.end(ReasonShutdown, shutdownCause(l.ctx))
		case <-l.maxTerm:
			l.try()
		case err := <-l.tried:
			l.takeTry(err)
		case <-changed.work:
		case <-changed.candidate:
		case <-l.lease.timer.C:
			l.lease.due()
		case a := <-l.m.voter.Answers():
			l.lease.take(l.m.voter.Count(a))
		}
	}
}

func (l *leadership) unhealthy(err error) {
	if !l.term.grant.Valid() { // this process was suspended, so its probes could not run either
		l.term.expire()
	}
	l.term.end(ReasonUnhealthy, err)
}

// try checks, in the background, whether another candidate could take the lock: the term has reached
// MaxTerm.
func (l *leadership) try() {
	l.maxTerm, l.tried = nil, make(chan error, 1)
	tried := l.tried
	l.m.voter.Go(func() { tried <- l.m.handoverBlocked(l.m.runCtx) })
}

func (l *leadership) takeTry(err error) {
	if err != nil {
		l.maxTerm = time.After(l.m.timing.RenewEvery())
		return
	}
	l.term.end(ReasonHandover, errMaxTerm)
}

// drain blocks until the work has returned. After a voluntary end the lease is
// kept meanwhile, for DrainTimeout at most. After that, and in all other cases,
// the lease expires, and work that is still running then is reported as an overrun.
func (l *leadership) drain() {
	stopKeeping := time.NewTimer(l.m.cfg.DrainTimeout)
	defer stopKeeping.Stop()
	// A process that was suspended until its lease had ended has had no time to stop the work, nor to
	// notice that another process (the guard of mandate run) has stopped it: report no overrun yet.
	_, toEnd := l.term.grant.Left()
	lapse := time.NewTimer(max(toEnd, l.m.timing.RetryEvery()))
	defer lapse.Stop()
	l.lease.wanted.Store(l.ended().Reason.voluntary())
	for l.outcome == nil {
		select {
		case out := <-l.run.done:
			l.returned(out)
		case <-stopKeeping.C:
			l.lease.wanted.Store(false)
		case <-l.lease.timer.C:
			l.lease.due() // checks health first
		case a := <-l.m.voter.Answers():
			l.lease.take(l.m.voter.Count(a))
		case <-lapse.C:
			if _, left := l.term.grant.Left(); left > 0 {
				lapse.Reset(left) // the lease was renewed
				continue
			}
			l.overrun()
		}
	}
}

// recordDelay keeps the record of a term's end from delaying the claims that its release causes.
const recordDelay = 2 * time.Millisecond

// release gives the lock back, after the work has returned. The nodes publish the end of the term in
// the same step. The history is written in the background.
func (l *leadership) release(ended *Ended) {
	m := l.m
	held := l.term.held() // before another candidate can take the lock
	l.term.lost.Store(true)
	l.disarm()
	l.lease.finish()
	heir := m.heir(l.term)
	ev := m.termEvent(EventReleased, l.term, ended)
	ev.Next = heir.Incarnation
	lock := &heldLock{m: m, token: l.term.token, lastSent: *l.lease.sent, releasing: m.voter.Releasing(l.term.token, heir, ev.encode())}
	lost := ended.Reason == ReasonExpired || ended.Reason == ReasonLost
	l.term.unreleased = lock.giveBack(lost && l.term.stopped == nil && l.ctx.Err() == nil)
	if l.term.unreleased == nil {
		m.supervisor.Released(m.supervised(l.term))
	}
	close(l.run.released)
	m.subscribers.publish(ev)
	ev.Held = held
	m.voter.Go(func() {
		defer close(l.run.reported)
		time.Sleep(recordDelay)
		<-l.announced
		m.voter.Announce(quorum.Report{Event: ev.encode()})
	})
	<-l.probeDone
}

// returned handles the end of the work. Once the term has ended an error of the
// work is only logged: work that is stopped usually fails.
func (l *leadership) returned(out outcome) {
	l.outcome = &out
	if l.term.ctx.Err() != nil {
		if out.err != nil && !out.panicked && !errors.Is(out.err, context.Canceled) && !errors.Is(out.err, l.term.Err()) {
			l.m.log.Warn("work failed while stopping", "token", l.term.token, "error", out.err)
		}
		return
	}
	switch {
	case out.panicked:
		l.term.end(ReasonPanicked, out.err)
	case out.err != nil:
		l.term.end(ReasonFailed, out.err)
	case l.term.stopped != nil && l.term.panicked != nil: // Term.Close saw the panic
		l.term.end(ReasonPanicked, fmt.Errorf("panic: %v", l.term.panicked))
	case l.term.stopped != nil: // Term.Close reported that the work has stopped
		l.term.end(l.term.requested())
	case !l.term.grant.Valid(): // this process was suspended, and its deadline's timer runs only now
		l.term.expire()
	default:
		l.term.end(ReasonFinished, nil)
	}
}

func (l *leadership) overrun() {
	m := l.m
	m.log.Error("work is still running after its lease expired; another leader may already be running", "token", l.term.token)
	m.subscribers.publish(m.termEvent(EventOverrun, l.term, l.ended()))
	if m.cfg.OnOverrun != nil {
		go m.cfg.OnOverrun(l.term)
	}
}

// ended returns how the term ended.
func (l *leadership) ended() *Ended {
	var ended *Ended
	if !errors.As(context.Cause(l.term.ctx), &ended) {
		panic("elector: a term without an end") // a bug in this package
	}
	return ended
}

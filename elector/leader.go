package elector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/standby"
)

var errMaxTerm = errors.New("the maximum length of a term has been reached")

// leadership is one term, from top to bottom: start the work (workrun.go), hold the lease (renew.go),
// stop the work and wait for it (drain), release the lock (release.go). Its fields belong
// to the state machine's goroutine.
type leadership struct {
	m         *machine
	ctx       context.Context // of Run or Campaign
	term      *Term
	lease     *renewer
	maxTerm   <-chan time.Time // fires after MaxTerm; nil: never, or it has
	drainer   drainer
	warmer    warmer
	tried     chan error      // nil: the nodes would let another candidate take the lock; nil until MaxTerm
	disarm    func()          // ends the work's probe
	probeDone <-chan struct{} // closed when the runner of the work's probe has returned
	run       workRun
	outcome   *outcome // set when the work has returned

	announced chan struct{} // closed when the election was announced: the report of the end comes after it
}

// startTerm arms the deadline, becomes leader, and starts the work. ctx is that of Run or
// Campaign: its end is the term's.
func (m *machine) startTerm(ctx context.Context, term *Term, work Work) *leadership {
	m.supervisor.Elected(m.supervised(term)) // the work may be killed at once
	l := &leadership{
		m: m, ctx: ctx, term: term, lease: m.newRenewer(term), drainer: drainer{m: m}, warmer: warmer{m: m, term: term},
		run: m.newWorkRun(term), announced: make(chan struct{}),
	}
	if m.cfg.MaxTerm > 0 {
		l.maxTerm = time.After(m.cfg.MaxTerm)
	}
	m.warming.stop()
	term.warms = m.cfg.warms()
	m.guards.add(term, m.timing.RetryEvery())
	m.term.Store(term)
	elected := m.termEvent(EventElected, term, nil)
	m.become(RoleLeading, &elected, slog.Uint64("token", term.token))
	l.disarm, l.probeDone = m.probes.arm()
	recorded := &report{ev: elected}
	recorded.ev.Vacant = m.memory.vacant(m.clock)
	before := m.memory.reported
	m.memory.reported = l.run.reported
	go l.run.serve(work, func() {
		defer close(l.announced)
		if before != nil {
			<-before
		}
		m.voter.Announce(quorum.Report{
			Event: func(late bool) []byte { return l.reportOf(recorded, 0, late) },
			Front: protocol.WakeMessage{Elected: true, Token: term.token}.String(),
		})
	})
	return l
}

// lead serves a term to the release of the lock. It returns after the work has.
func (l *leadership) lead() *Ended {
	l.hold()
	l.warmer.stop()
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

// stop reports that the term has ended, and how.
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
	l.m.become(RoleStopping, &ev, attrs...)
	return ended
}

// hold renews until the term ends, by whatever ends first.
func (l *leadership) hold() {
	l.lease.begin()
	l.drainer.look()
	for l.term.ctx.Err() == nil {
		changed := l.m.probes.changes() // taken before the verdict is read: so no change is missed
		if err := l.m.probes.failing(); err != nil {
			l.unhealthy(err)
			return
		}
		over, asked := l.ctx.Done(), l.term.asked
		if l.warmer.waits() { // the end is planned already: it waits for the heir only
			over, asked = nil, nil
		}
		select {
		case <-l.term.ctx.Done():
		case out := <-l.run.done:
			l.returned(out)
		case <-over:
			l.warmer.plan(ReasonShutdown, shutdownCause(l.ctx))
		case <-asked:
			l.warmer.plan(l.term.requested())
		case h := <-l.warmer.warmed:
			l.warmer.take(h)
		case <-l.maxTerm:
			l.try()
		case err := <-l.tried:
			l.takeTry(err)
		case <-l.m.recordoned:
			l.drainer.look()
		case <-l.drainer.due:
			l.drainer.look()
		case err := <-l.drainer.found:
			l.takeDrain(err)
		case <-changed.work:
		case <-changed.candidate:
		case <-l.lease.due:
			l.lease.renewNow()
		case r := <-l.lease.ended:
			l.lease.countNow(r)
		}
	}
}

func (l *leadership) unhealthy(err error) {
	if !l.term.grant.Valid() { // this process was suspended, so its probes could not run either
		l.term.expire()
	}
	l.term.end(ReasonUnhealthy, err)
}

// try finds out whether another candidate could lead in place of this one, whose term has reached MaxTerm.
func (l *leadership) try() {
	l.maxTerm, l.tried = nil, make(chan error, 1)
	tried := l.tried
	l.m.voter.Go(func() { tried <- l.m.yieldable(l.m.going) })
}

func (l *leadership) takeTry(err error) {
	if err != nil {
		l.maxTerm = time.After(l.m.timing.RenewEvery)
		return
	}
	l.warmer.plan(ReasonHandover, errMaxTerm)
}

func (l *leadership) takeDrain(err error) {
	if why := l.drainer.take(err); why != nil {
		l.warmer.plan(ReasonHandover, why)
	}
}

// drain waits for the work to return. After a voluntary end the lease is kept
// meanwhile, up to DrainTimeout; then, and in all other cases, it expires, and
// the overrun is reported.
func (l *leadership) drain() {
	stopKeeping := time.NewTimer(l.m.cfg.DrainTimeout)
	defer stopKeeping.Stop()
	// A process that was stopped until after the lease's end has had no time to stop the work, nor
	// to see that another process did.
	_, toEnd := l.term.grant.Left()
	lapse := time.NewTimer(max(toEnd, l.m.timing.RetryEvery()))
	defer lapse.Stop()
	l.lease.wanted.Store(l.ended().Reason.voluntary())
	for l.outcome == nil {
		var next <-chan struct{}
		if l.lease.wanted.Load() {
			next = l.lease.due
		}
		select {
		case out := <-l.run.done:
			l.returned(out)
		case <-stopKeeping.C:
			l.lease.wanted.Store(false)
		case <-next:
			l.lease.renewNow() // checks health first
		case r := <-l.lease.ended:
			l.lease.countNow(r)
		case <-lapse.C:
			if _, left := l.term.grant.Left(); left > 0 {
				lapse.Reset(left) // it was renewed
				continue
			}
			l.overrun()
		}
	}
}

// release gives the lock back: the work has returned. The nodes notify the front row in
// the same step. All others, and the history, are notified a little later and in the
// background, so that they don't stand in its way.
func (l *leadership) release(ended *Ended) {
	m := l.m
	held := l.term.held() // before the lock may be another's
	l.term.lost.Store(true)
	l.disarm()
	l.lease.finish()
	heir := m.heir(l.term)
	ev := m.termEvent(EventReleased, l.term, ended)
	ev.Next = heir.Incarnation
	lock := &heldLock{m: m, token: l.term.token, lastSent: *l.lease.lastSent, releasing: m.voter.Releasing(l.term.token, heir)}
	lost := ended.Reason == ReasonExpired || ended.Reason == ReasonLost
	l.term.unreleased = lock.giveBack(lost && l.term.stopped == nil && l.ctx.Err() == nil)
	if l.term.unreleased == nil {
		m.supervisor.Released(m.supervised(l.term))
	}
	close(l.run.released)
	m.subscribers.publish(ev)
	recorded := &report{ev: ev}
	m.voter.Go(func() {
		defer close(l.run.reported)
		time.Sleep(standby.FrontRowLead)
		<-l.announced
		m.voter.Announce(quorum.Report{Event: func(late bool) []byte { return l.reportOf(recorded, held, late || held > 0) }})
	})
	<-l.probeDone
}

// reportOf is a report as a node is to record it. held is for how long the lease covered
// the work; zero: it has just begun, or that is not known. late: how long ago what it
// reports was is part of it.
func (l *leadership) reportOf(r *report, held time.Duration, late bool) []byte {
	if since, ok := l.m.clock.Since(l.term.begun); ok && late {
		return r.at(held, max(0, since-held))
	}
	return r.at(0, 0)
}

// returned takes the end of the work. Once the term has ended an error of the
// work is logged, and no more: work that is stopped usually fails.
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

// ended is how the term ended.
func (l *leadership) ended() *Ended {
	var ended *Ended
	if !errors.As(context.Cause(l.term.ctx), &ended) {
		panic("elector: a term without an end") // a bug of ours
	}
	return ended
}

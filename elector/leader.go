package elector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

var (
	errMaxTerm = errors.New("the maximum length of a term has been reached")
	errGoexit  = errors.New("the work called runtime.Goexit")
)

// outcome is how the work ended.
type outcome struct {
	err      error
	panicked bool // or it called runtime.Goexit
	fatal    bool // it panicked: the process is about to end
}

// start begins a term that was won: it arms the deadline, becomes leader, and starts the work.
func (m *machine) start(t *Term, work Work) {
	m.serving, m.outcome, m.dataLost = t, nil, false
	m.lateRelease = nil                   // the term has taken over the locks that were not released yet
	m.supervisor.Elected(m.supervised(t)) // first: the process may be killed as soon as the work runs
	age, _ := t.grant.Age()               // counted from when the claim was sent, which may be long ago
	m.renewal = renewal{timer: time.NewTimer(m.nextRenewalIn(age)), sent: m.clock.Now()}
	t.guard(m.timing.RenewEvery())
	m.term.Store(t)
	elected := m.event(EventElected, t, nil)
	m.become(roleLeading, &elected, slog.Uint64("token", t.token))
	m.probes.arm()
	m.election.hooks.begun(&m.candidate, t)
	go m.work(t, work)
	yield() // the work begins now
	if m.cfg.MaxTerm > 0 {
		go m.limit(t)
	}
	if age > m.timing.CallTimeout()/2 { // so far away the announcement would take the connection that the renewal needs
		m.renew()
	}
	m.voter.Announce(protocol.Message{Kind: elected.Kind, Token: elected.Token}.Head(), elected.encode())
	m.voter.CheckAddresses(m.cfg.Lease, t.lostTo)
}

// work runs the work of a term, on a goroutine of its own. A panic still ends the process, but first the
// lock is released and the panic recorded, within bounds.
func (m *machine) work(t *Term, work Work) {
	out := outcome{err: errGoexit, panicked: true}
	defer func() {
		value := recover()
		if value != nil {
			out.err, out.fatal = fmt.Errorf("panic: %v", value), true
		}
		t.worked.Store(true)
		t.returned <- out
		if !out.panicked {
			return
		}
		m.log.Error("work panicked", "token", t.token, "error", out.err, "stack", string(debug.Stack()))
		t.overWithin(2 * m.timing.CallTimeout())
		m.logged.flush(m.timing.CallTimeout())
		if value != nil {
			panic(value) // prints the stack of the first panic too: it has not been unwound
		}
	}()
	err := work(t.ctx, t)
	out = outcome{err: err}
}

// limit ends a term that has reached MaxTerm, as soon as another candidate could take the lock. It runs
// on a goroutine of its own.
func (m *machine) limit(t *Term) {
	for wait := m.cfg.MaxTerm; t.ctx.Err() == nil; wait = m.timing.RenewEvery() {
		lease.Sleep(t.ctx, wait)
		if t.ctx.Err() == nil && m.handoverBlocked(t.ctx) == nil {
			t.end(ReasonHandover, errMaxTerm)
		}
	}
}

// lead serves the term that start has begun, until its lock is released. It returns only after the work
// has. The term ends when ctx does: that of Run, or for Campaign one that ends when the Quorum is closed.
func (m *machine) lead(ctx context.Context) *Ended {
	m.hold(ctx)
	ended, t := m.serving.how(), m.serving
	m.countBadEnd(ended.Reason, time.Since(t.since))
	yield() // work that returns at once has returned then, and its lock is released before anything is logged
	if m.outcome == nil && len(t.returned) == 0 {
		m.becomeStopping(ended)
		m.drain(ended.Reason.voluntary())
	}
	if ended.Reason == ReasonUnhealthy || !t.grant.Valid() {
		m.wasUnable()
	}
	m.release(ctx, ended)
	return ended
}

// yield lets others run before the caller, who has only book-keeping left: the work that begins or ends, and the call that
// carries a release. On few processors they would wait for it. A planned handover takes 15 to 25 % less time.
func yield() { runtime.Gosched() }

// hold renews the lease until the term ends, for whichever reason comes first.
func (m *machine) hold(ctx context.Context) {
	t := m.serving
	for t.ctx.Err() == nil {
		// The channels are taken before the status is read, so that no change is missed.
		until := signals{ended: t.ctx.Done(), shutdown: ctx.Done(), candidate: changed(m.probes.candidate), work: changed(m.probes.work)}
		if err := m.probes.failing(); err != nil {
			t.end(ReasonUnhealthy, err)
			return
		}
		for signaled := false; !signaled && t.ctx.Err() == nil; {
			signaled = m.await(until)
		}
		if ctx.Err() != nil {
			t.end(ReasonShutdown, shutdownCause(ctx))
		}
	}
}

// drain blocks until the work has returned. After a voluntary end the lease is
// renewed meanwhile, for DrainTimeout at most. After that, and in all other cases,
// the lease expires, and work that is still running then is reported as an overrun.
func (m *machine) drain(renews bool) {
	t := m.serving
	t.renews.Store(renews)
	limit := time.AfterFunc(m.cfg.DrainTimeout, func() { t.renews.Store(false) })
	defer limit.Stop()
	// A process that was suspended until its lease had ended has had no time to stop the work, nor to
	// notice that another process (the helper of mandate run) has stopped it: report no overrun yet.
	_, toEnd := t.grant.Left()
	notBefore := time.Now().Add(max(toEnd, m.timing.RetryEvery()))
	lapse := time.NewTimer(min(slowStop, time.Until(notBefore)))
	defer lapse.Stop()
	for told := false; m.outcome == nil; {
		if !m.await(signals{lapse: lapse.C}) {
			continue
		}
		if !told { // if it is killed now, it can't report its end any more
			ev := m.event(EventStopping, t, t.how())
			m.voter.Announce(protocol.Message{Kind: ev.Kind, Token: ev.Token}.Head(), ev.encode())
			told = true
		}
		if _, left := t.grant.Left(); max(left, time.Until(notBefore)) > 0 {
			lapse.Reset(max(left, time.Until(notBefore))) // of a lease that was renewed
			continue
		}
		m.overrun()
	}
}

// slowStop is after how long the history learns that a leader is stopping: most work has returned by then.
const slowStop = time.Second

// signals are what await waits for besides the work and the renewals; nil: it does not.
type signals struct {
	ended, shutdown <-chan struct{}  // the term, and Run
	candidate, work <-chan struct{}  // the health that this probe reports has changed
	lapse           <-chan time.Time // the lease may have ended
}

// await blocks until something happens to the term that is served. It handles what comes from the work and from the
// renewals itself, and reports whether it was one of the signals.
func (m *machine) await(until signals) (signaled bool) {
	select {
	case out := <-m.serving.returned:
		m.returned(out)
	case <-m.renewal.timer.C:
		m.renewalTimer()
	case a := <-m.voter.Answers():
		if tally, over := m.voter.Count(a); over {
			m.renewalDone(tally)
		}
		if err := m.rival(); err != nil {
			m.serving.lostTo(err)
		}
	case <-until.ended:
		return true
	case <-until.shutdown:
		return true
	case <-until.candidate:
		return true
	case <-until.work:
		return true
	case <-until.lapse:
		return true
	}
	return false
}

// becomeStopping logs and publishes that the term has ended, and how, unless that was done.
func (m *machine) becomeStopping(ended *Ended) {
	t := m.serving
	if m.published.read().role == roleStopping {
		return
	}
	ev := m.event(EventStopping, t, ended)
	attrs := []slog.Attr{
		slog.Uint64("token", t.token), slog.String("reason", string(ended.Reason)),
		slog.String("led_for", unit(time.Since(t.since))),
	}
	if ended.Err != nil {
		attrs = append(attrs, slog.String("detail", ended.detail()))
	}
	m.become(roleStopping, &ev, attrs...)
}

// returned handles the end of the work. Once the term has ended an error of the
// work is only logged: work that is stopped usually fails. Work that reads the clock may know of the
// deadline before its timer fires.
func (m *machine) returned(out outcome) {
	t := m.serving
	m.outcome = &out
	if t.ctx.Err() == nil && !out.panicked && t.panicked == nil && !t.grant.Valid() {
		t.expire()
	}
	if t.ctx.Err() != nil {
		if out.err != nil && !out.panicked && !errors.Is(out.err, context.Canceled) && !errors.Is(out.err, t.Err()) {
			m.log.Warn("work failed while stopping", "token", t.token, "error", out.err)
		}
		return
	}
	var again *RestartError
	var ended *Ended
	switch {
	case out.panicked:
		t.end(ReasonPanicked, out.err)
	case errors.As(out.err, &again) && errors.As(again.Err, &ended) && ended.Reason == ReasonExpired:
		t.end(ReasonExpired, ended.Err)
	case out.err != nil:
		t.end(ReasonFailed, out.err)
	case t.stopped != nil && t.panicked != nil: // Term.Close saw the panic
		t.end(ReasonPanicked, fmt.Errorf("panic: %v", t.panicked))
	case t.stopped != nil: // Term.Close reported that the work has stopped
		t.end(t.requested())
	default:
		t.end(ReasonFinished, nil)
	}
}

func (m *machine) overrun() {
	t := m.serving
	m.log.Error("work is still running after its lease expired; another leader may already be running", "token", t.token)
	m.subscribers.publish(m.event(EventOverrun, t, t.how()))
	if m.cfg.OnOverrun != nil {
		go func() {
			m.logged.flush(m.timing.CallTimeout()) // it may end the process
			m.cfg.OnOverrun(t)
		}()
	}
}

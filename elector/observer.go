package elector

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/standby"
)

// observer follows one election for one loop over Election.Observe. The loop's goroutine owns all
// fields; the inbox and the subscription to the candidate's events have locks of their own.
type observer struct {
	el    *Election
	yield func(Event) bool
	end   context.CancelFunc // of the loop: after it nothing is yielded
	local *subscription      // to the events of the candidate in this process; nil: there is none
	lease time.Duration      // the candidates', as far as known: it determines how often to query
	inbox *inbox

	reported      reported
	changes       int       // how many changes of the candidate in this process were reported
	emitted       bool      // an event was reported since the last query
	until         time.Time // when the lease ends that was seen last; zero: there was no leader
	staleLockSeen time.Time // when the lock of a term was first seen after its end had been reported; zero: it was not
}

// timing returns the timing of a candidate with this lease.
func (o *observer) timing() lease.Timing { return Config{Lease: o.lease}.withDefaults().timing() }

// emit passes an event to the loop's body. It returns false when the loop has ended.
func (o *observer) emit(ctx context.Context, ev Event) bool {
	if ctx.Err() != nil {
		return false
	}
	ev.Election, o.emitted = o.el.name, true
	if !o.yield(ev) {
		o.end()
		return false
	}
	return true
}

// maybe reports whether the leader that was reported, or before the first report any, may lead although no
// majority shows it: because nodes did not answer, or because it is the candidate in this process,
// whose term is valid by the clock.
func (o *observer) maybe(a reading) bool {
	term, l := o.reported.term, a.status.MayLead
	if !o.reported.begun {
		return l != nil
	}
	if o.reported.ending != notEnded || term.Token == 0 {
		return false
	}
	if own := o.el.own.validTerm(); own != nil && own.token == term.Token && o.el.own.is(term.Incarnation) {
		return true
	}
	return l != nil && l.Incarnation != "" && l.Incarnation == term.Incarnation
}

// stillRenewed reports whether the lock of a term whose end was reported is still held after a whole
// lease: then the leader renews it, and the report was forged.
func (o *observer) stillRenewed(l *Leader) bool {
	if l == nil || o.reported.ending != endedReported || l.Token != o.reported.term.Token {
		o.staleLockSeen = time.Time{}
		return false
	}
	if o.staleLockSeen.IsZero() {
		o.staleLockSeen = time.Now()
	}
	return time.Since(o.staleLockSeen) > o.lease
}

// waitForReleased returns for how long to wait for the reported leader's "released" if its lease has not
// expired. In that case the leader released the lock, and only a busy machine delays its report.
func (o *observer) waitForReleased() time.Duration {
	if time.Now().Before(o.until) {
		return min(o.timing().RetryEvery(), waitForLateEnd)
	}
	return 0
}

// confirm notes until when the leader's lease lasts, and that it is known who leads.
func (o *observer) confirm(l *Leader) {
	o.until = time.Time{}
	o.el.bus.Check(standby.TestEvery*o.lease, o.timing().CallTimeout())
	if l != nil {
		o.until = time.Now().Add(l.LeaseLeft)
		if o.local == nil && l.holder.Lease > 0 {
			o.lease = l.holder.Lease
		}
	}
	o.el.unknown.Store(false)
}

// expire notes that it is unknown who leads, once the lease that was seen last has
// expired: callers must not be sent to a leader that is long gone.
func (o *observer) expire(ctx context.Context) {
	if ctx.Err() == nil && !o.until.IsZero() && time.Now().After(o.until) {
		o.el.unknown.Store(true)
	}
}

// ownEvents reports the events of the candidate in this process. It returns false when the
// loop has ended.
func (o *observer) ownEvents(ctx context.Context) bool {
	if o.local == nil {
		return true
	}
	events, skipped := o.el.own.subscribers.take(o.local)
	if skipped > 0 {
		o.inbox.signal() // the end of the last reported term may be among them: query Redis for it
		if !o.emit(ctx, Event{Version: eventVersion, Kind: EventSkipped, Count: skipped, Time: time.Now().Round(0)}) {
			return false
		}
	}
	for _, ev := range events {
		switch ev.Kind { // the others do not change who leads
		case EventElected:
			o.changes++
			if !o.ownElection(ctx, ev) {
				return false
			}
			continue
		case EventReleased:
			o.changes++
			if ev.Token != o.reported.term.Token || o.reported.ending != notEnded {
				continue // the end was reported already
			}
			o.reported.ending = endedReported
		}
		if !o.emit(ctx, ev) {
			return false
		}
	}
	return true
}

// ownElection reports that the candidate in this process was elected, and before it what is known of
// how the terms before it ended.
func (o *observer) ownElection(ctx context.Context, ev Event) bool {
	r := reading{hurry: true, messages: slices.Concat([]Event{ev}, o.inbox.waiting()), status: Status{Nodes: []NodeStatus{{Fence: ev.Token}}, Leader: &Leader{
		Candidate: ev.Candidate, Incarnation: ev.Incarnation, Advertise: ev.Advertise, Token: ev.Token,
		holder: protocol.Holder{TokenAgreed: true},
	}}}
	if o.reported.begun {
		r.history = o.el.recent(ctx, waitForOldEnd)
	}
	events, is, _ := o.reported.merge(r, time.Now())
	o.reported = is
	for _, ev := range events {
		if !o.emit(ctx, ev) {
			return false
		}
	}
	return true
}

// query runs read on a goroutine of its own: a node that hangs must not delay the events of the
// candidate in this process.
func (el *Election) query(ctx context.Context, was reported, changes int, messages []Event) <-chan reading {
	answer := make(chan reading, 1)
	go func() {
		a := el.read(ctx, was, messages)
		a.changes = changes
		answer <- a
	}()
	return answer
}

// read queries Redis, for an observer that has reported was. It blocks.
func (el *Election) read(ctx context.Context, was reported, messages []Event) (a reading) {
	a.messages = messages
	if a.status, a.err = el.Status(ctx); a.err != nil || !was.needsHistory(a.status.Leader, len(messages) > 0) {
		return a
	}
	sent := time.Now()
	a.history = el.recent(ctx, statusTimeout/3)
	if l := a.status.Leader; l != nil {
		l.LeaseLeft = max(0, l.LeaseLeft-time.Since(sent))
	}
	return a
}

// needsHistory reports whether anything has changed, so that the history must be read. While the
// leader stays the same, an observer sends only one request to each node per lease.
func (s reported) needsHistory(l *Leader, messages bool) bool {
	switch {
	case !s.begun:
		return true
	case l == nil:
		return s.ending == notEnded || messages
	default:
		return l.Token != s.term.Token || !l.sameLife(s.term) || !l.holder.TokenAgreed
	}
}

// recentEntries is how many entries of the history an observer reads: 32 terms, or fewer where
// pauses stand among them.
const recentEntries = 64

// recent returns the newest events of all nodes; none where the history can't be read.
func (el *Election) recent(ctx context.Context, limit time.Duration) []Event {
	var events []Event
	nodes, _ := el.recall(ctx, recentEntries, limit, quorum.MinExtraWait) // best effort: a user that may not read it sees less
	for _, entries := range nodes {
		for _, entry := range slices.Backward(entries) {
			if ev, err := parseEvent(entry); err == nil && ev.Election == el.name {
				events = append(events, ev)
			}
		}
	}
	return events
}

// inbox holds the reports that the candidates of an election published, until an observer has
// compared them with what Redis shows. Safe for concurrent use.
type inbox struct {
	election string
	own      *candidate    // in this process; nil: none
	arrived  chan struct{} // signaled: the election may have changed

	mu       sync.Mutex // guards messages
	messages []Event    // that arrived since the last reading, or that it could not use yet
}

// receive runs on the subscription's goroutine. It ignores messages of the candidate in this
// process: their events were reported already, and a query that finds nothing new would only make
// the observer wait longer after the next message.
func (b *inbox) receive(s pubsub.Signal) (keep bool) {
	if s.Kind == pubsub.Message {
		ev, err := eventIn(s.Payload)
		if err != nil || ev.Election != b.election || b.own.is(ev.Incarnation) {
			return false
		}
		if ev.Kind != EventElected && ev.Kind != EventReleased {
			return false
		}
		b.keep(nil, ev)
	}
	b.signal()
	return false
}

// signal makes the observer query the election soon.
func (b *inbox) signal() {
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// take returns all messages and empties the inbox.
func (b *inbox) take() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.messages
	b.messages = nil
	return all
}

// waiting returns all messages and leaves them in the inbox.
func (b *inbox) waiting() []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.messages
}

// keep adds messages in front of those in the inbox (older ones, which take returned and a reading could not
// use yet) and behind them. When there are too many, the newest stay.
func (b *inbox) keep(older []Event, newer ...Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = slices.Concat(older, b.messages, newer)
	if more := len(b.messages) - eventBuffer; more > 0 {
		b.messages = slices.Clone(b.messages[more:])
	}
}

package peers

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// Start subscribes, and answers requests until ctx ends. Call it once.
func (p *Peers) Start(ctx context.Context) {
	p.since = time.Now()
	for _, channel := range []string{p.c.Keys.Ask, p.c.Keys.Roll} {
		s := p.c.Bus.Subscribe(channel, 0, func(s pubsub.Signal) bool {
			p.receive(channel, s)
			return false
		})
		p.subscriptions = append(p.subscriptions, s)
	}
	p.running.Go(func() { p.run(ctx) })
}

// Stop ends the subscriptions, waits for what Start started, whose context has ended, and, except in a race,
// publishes that this candidate is gone, so that no other candidate waits for it.
func (p *Peers) Stop() {
	for _, s := range p.subscriptions {
		s.Close()
	}
	p.running.Wait()
	p.heir.Store(nil)
	if p.c.Order != Race {
		p.publish(context.Background(), request{Kind: gone, Candidate: new(p.self())})
	}
}

// run answers what was received until ctx ends. Where the order of succession needs it, run also publishes what this
// candidate is, and looks for an heir.
func (p *Peers) run(ctx context.Context) {
	var due <-chan time.Time
	if p.c.Order != Race {
		every := time.NewTicker(p.c.RenewEvery)
		defer every.Stop()
		due = every.C
	}
	for ctx.Err() == nil {
		if p.c.Order != Race {
			p.updateSuccession(ctx) // the first time it publishes what this candidate is
		}
		p.next(ctx, due)
	}
}

// next waits for something to do, and does it; or until ctx ends.
func (p *Peers) next(ctx context.Context, due <-chan time.Time) {
	select {
	case <-ctx.Done():
	case r := <-p.rollCalls.received:
		p.answer(ctx, r)
	case r := <-p.requests.received:
		p.answer(ctx, r)
		for range len(p.requests.received) { // to update the succession after each of them would take longer than they do
			p.answer(ctx, <-p.requests.received)
		}
	case <-p.pauseDue:
		p.confirmPause(ctx)
	case <-p.roleChanged:
	case <-due:
	}
}

// receive runs on the subscription's goroutine.
func (p *Peers) receive(channel string, s pubsub.Signal) {
	if s.Kind == pubsub.Failed {
		p.c.NotSubscribed(s.Err)
	}
	if s.Kind != pubsub.Message {
		return
	}
	q := parseRequest(s.Payload)
	if q != nil && q.Version != protocol.Version && q.Kind != rollCall {
		p.c.OtherVersion(q.Version)
		return
	}
	if q == nil || q.Election != p.c.Election || channel != p.c.channelOf(q.Kind) || p.concernsOthers(q) {
		return
	}
	p.mailboxOf(q.Kind).put(received{s.Node, q})
}

// concernsOthers reports whether this candidate can ignore a request: its own, or in a race, news
// of another candidate.
func (p *Peers) concernsOthers(q *request) bool {
	if c := q.Candidate; c != nil && c.Incarnation == p.c.Incarnation {
		return true
	}
	return p.c.Order == Race && (q.Kind == info || q.Kind == gone)
}

// answer handles a request. Each request arrives once from every node.
func (p *Peers) answer(ctx context.Context, r received) {
	switch r.Kind {
	case info:
		if r.Candidate == nil || !r.Candidate.Identities().Meet(p.self().Identities()) {
			return // it votes about another lock
		}
		p.others.note(*r.Candidate, time.Now())
	case gone:
		if r.Candidate != nil {
			delete(p.others, r.Candidate.Incarnation)
		}
	case rollCall:
		if p.fresh(r) {
			p.reply(ctx, r, Answer{Candidate: new(p.self())})
		}
	case leaderAll:
		if p.fresh(r) {
			p.publish(ctx, request{Kind: info, Candidate: new(p.self())})
		}
	case stepDown:
		if token, leads := p.c.Self.Leading(); leads && r.Leader == p.c.Incarnation && p.fresh(r) {
			p.reply(ctx, r, p.stepDown(token, r))
		}
	case paused, resumed:
		if p.pauseDue == nil {
			p.pauseDue = time.After(time.Until(p.pauseRead.Add(p.c.RetryEvery)))
		}
	}
}

// stepDown ends the term if the request is about this one.
func (p *Peers) stepDown(token uint64, r received) Answer {
	a := Answer{Candidate: new(p.self())}
	if r.Token != token {
		a.Refused = "the term that you mean is over"
		return a
	}
	p.c.Self.HandOver(token, r.To, requested(r.Note))
	return a
}

func (p *Peers) reply(ctx context.Context, r received, with Answer) {
	channel := protocol.Reply(p.c.channelOf(r.Kind), r.Nonce)
	ctx = context.WithoutCancel(ctx)
	p.mailboxOf(r.Kind).background(func() {
		_, _ = p.c.Nodes.PublishTo(ctx, r.node, channel, with.encode(), p.c.CallTimeout)
	})
}

// requested returns the reason of a step-down with a note; a note "by ..." names who requested it.
func requested(note string) error {
	if strings.HasPrefix(note, "by ") {
		return errors.New("requested " + note)
	}
	return errors.New(strings.TrimSuffix("requested by an operator: "+note, ": "))
}

// confirmPause reads from Redis whether the election is paused, as a message says: at most once per RetryEvery,
// however many messages arrive. A candidate that waits for the end of a pause claims again.
func (p *Peers) confirmPause(ctx context.Context) {
	p.pauseRead, p.pauseDue = time.Now(), nil
	if p.c.Self.IsPaused() {
		pubsub.Wake(p.pauseEnded)
	}
	p.requests.background(func() { p.c.Self.ReadPause(ctx) })
}

// mailbox holds the requests received on one channel that are not answered yet, and bounds the
// cost of the answers. Each channel has its own mailbox: users who may only call the roll must
// not displace a request to step down, however many messages they send.
type mailbox struct {
	received chan received
	start    func(func())    // runs a function in the background
	sending  atomic.Int32    // messages under way
	seen     map[string]bool // nonces; owned by the goroutine that answers
}

// received is a request and the node that it came from.
type received struct {
	node int
	*request
}

// Bounds of what a flood of messages on a channel can cost. What exceeds them is dropped.
const (
	maxSeen    = 256 // nonces that are remembered
	maxSending = 8   // messages under way, each of which a hung node delays until its time-out
)

// newMailbox returns a mailbox for so many requests that wait for an answer.
func newMailbox(start func(func()), waiting int) *mailbox {
	return &mailbox{received: make(chan received, waiting), start: start}
}

func (b *mailbox) put(r received) {
	select {
	case b.received <- r:
	default:
	}
}

// fresh reports whether a request with that nonce arrives for the first time.
func (b *mailbox) fresh(nonce string) bool {
	if nonce == "" || b.seen[nonce] {
		return false
	}
	if b.seen == nil || len(b.seen) >= maxSeen {
		b.seen = map[string]bool{}
	}
	b.seen[nonce] = true
	return true
}

// background runs f, unless too much is under way already.
func (b *mailbox) background(f func()) {
	if b.sending.Add(1) > maxSending {
		b.sending.Add(-1)
		return
	}
	b.start(func() {
		defer b.sending.Add(-1)
		f()
	})
}

package peers

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Run follows and answers until ctx ends. Call it once.
func (p *Peers) Run(ctx context.Context) {
	p.since = time.Now()
	defer p.c.Bus.Subscribe(p.c.Keys.Ask, p.receive)()
	defer p.c.Bus.Subscribe(p.c.Keys.Roll, p.receive)()
	defer p.leave()
	look := time.NewTicker(p.c.RenewEvery)
	defer look.Stop()
	if p.c.Order == Race { // with the others the first look does
		p.introduce()
	}
	for {
		p.look()
		select {
		case <-ctx.Done():
			return
		case <-p.woken:
		case <-look.C:
		}
		for _, r := range append(p.requests.take(), p.rollCalls.take()...) {
			p.answer(ctx, r)
		}
		p.confirmPause(ctx)
	}
}

// receive runs on the subscription's goroutine.
func (p *Peers) receive(s pubsub.Signal) {
	if s.Kind != pubsub.Message {
		return
	}
	q, err := parseRequest(s.Payload)
	if err != nil || q.Election != p.c.Election || s.Channel != p.c.channelOf(q.Kind) {
		return
	}
	if q.Candidate != nil && q.Candidate.Incarnation == p.c.Incarnation {
		return // our own
	}
	p.mailboxOf(q.Kind).put(received{s.Node, q})
	p.wake()
}

// leave takes leave of the others, so that none waits for this candidate.
func (p *Peers) leave() {
	p.heir.Store(nil)
	if p.c.Order != Race {
		self := p.self()
		p.publish(context.Background(), request{Kind: gone, Candidate: &self})
	}
}

// answer does what a request asks for. A request comes once from each node.
func (p *Peers) answer(ctx context.Context, r received) {
	switch r.Kind {
	case info:
		if r.Candidate != nil {
			p.twin(*r.Candidate)
		}
		if r.Candidate != nil && p.c.Order != Race {
			p.others.note(*r.Candidate, time.Now())
		}
	case gone:
		if r.Candidate != nil {
			delete(p.others, r.Candidate.Incarnation)
		}
	case rollCall:
		if p.fresh(r) {
			self := p.self()
			p.reply(ctx, r, Answer{Candidate: &self})
		}
	case leaderAll:
		if p.fresh(r) {
			self := p.self()
			p.publish(ctx, request{Kind: info, Candidate: &self})
		}
	case stepDown:
		if token, leads := p.c.Self.Leading(); leads && p.fresh(r) {
			p.reply(ctx, r, p.stepDown(token, r))
		}
	case paused, resumed:
		p.pauses.open = true
	}
}

// stepDown ends the term when it is the one that is meant.
func (p *Peers) stepDown(token uint64, r received) Answer {
	self := p.self()
	if r.Token != token {
		return Answer{Candidate: &self, Refused: "the term that you mean is over"}
	}
	why := errors.New("requested by an operator")
	if r.Note != "" {
		why = errors.New(requested(r.Note))
	}
	p.c.Self.HandOver(token, r.To, why)
	return Answer{Candidate: &self}
}

func (p *Peers) reply(ctx context.Context, r received, with Answer) {
	channel := quorum.Reply(p.c.channelOf(r.Kind), r.Nonce)
	ctx = context.WithoutCancel(ctx)
	p.mailboxOf(r.Kind).background(func() {
		_ = p.c.Nodes.PublishTo(ctx, r.node, channel, with.encode(), p.c.CallTimeout)
	})
}

// requested is a note as the reason of a step-down; it may begin with who requested it.
func requested(note string) string {
	if strings.HasPrefix(note, "by ") {
		return "requested " + note
	}
	return "requested by an operator: " + note
}

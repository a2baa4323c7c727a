// Package peers is what the candidates of an election tell each other: who they are
// (the roll call), requests to hand over, and, where the order of succession needs it, who
// goes first. All of it is hints: the lock alone decides who leads, and the state machine
// waits for nothing here.
package peers

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Self is the candidate of this process. Its methods are called on many goroutines, and
// do no I/O unless they say so.
type Self interface {
	// Info is what the candidate is, without what Peers adds: Host, RunningFor and
	// HealthyFor.
	Info() Candidate
	// Leading is the token of the term that the candidate serves; false: none.
	Leading() (token uint64, ok bool)
	// HandOver ends the term with that token in favour of an incarnation; "": of any.
	HandOver(token uint64, to string, why error)
	// IsPaused reports whether the election is paused, as far as the candidate knows.
	IsPaused() bool
	// ReadPause asks Redis whether it is.
	ReadPause(ctx context.Context)
}

// Config is what Peers is made of.
type Config struct {
	Channel
	Self Self
	Log  *slog.Logger
	// Go runs a function in the background; the owner of Peers waits for it.
	Go func(func())

	ID, Incarnation string
	Order           Order
	// Following is the role of those that could lead next, and Stopping that of a leader
	// whose release still names the heir.
	Following, Stopping string

	Lease, RenewEvery, RetryEvery, CallTimeout time.Duration
}

// Peers is a candidate's part in what the candidates tell each other.
type Peers struct {
	c          Config
	host       string
	woken      chan struct{}
	pauseEnded chan struct{}
	requests   *mailbox
	rollCalls  *mailbox
	heir       atomic.Pointer[string] // incarnation; set while leading

	// of the goroutine of Run
	since   time.Time // when this candidate began to run
	healthy time.Time // since when it has been healthy; zero: it isn't
	others  roster
	shown   string // what was last published of role and health
	called  time.Time
	led     uint64          // token of the term of the last roll call
	twins   map[string]bool // incarnations that were seen under this candidate's id
	pauses  doubt
}

// New does no I/O.
func New(c Config) *Peers {
	host, _ := os.Hostname() // for people only
	return &Peers{
		c: c, host: host, woken: make(chan struct{}, 1), pauseEnded: make(chan struct{}, 1),
		requests: newMailbox(c.Go), rollCalls: newMailbox(c.Go), others: roster{}, twins: map[string]bool{},
	}
}

// RoleChanged has the candidate looked at anew where the others need to know. It never
// blocks. In a race none of them does, and the goroutine that it would wake would stand in
// the way of a handover.
func (p *Peers) RoleChanged() {
	if p.c.Order != Race {
		p.wake()
	}
}

func (p *Peers) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// PauseEnded is signaled when the pause that the candidate waits for may have ended.
func (p *Peers) PauseEnded() <-chan struct{} { return p.pauseEnded }

// Heir is the incarnation that goes first after the term, "" for none.
func (p *Peers) Heir() string {
	if first := p.heir.Load(); first != nil {
		return *first
	}
	return ""
}

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

func (p *Peers) mailboxOf(kind string) *mailbox {
	if kind == rollCall {
		return p.rollCalls
	}
	return p.requests
}

// leave takes leave of the others, so that none waits for this candidate.
func (p *Peers) leave() {
	p.heir.Store(nil)
	if p.c.Order != Race {
		self := p.self()
		p.publish(context.Background(), request{Kind: gone, Candidate: &self})
	}
}

// self is what this candidate publishes of itself.
func (p *Peers) self() Candidate {
	self := p.c.Self.Info()
	self.Host, self.RunningFor = p.host, time.Since(p.since)
	if self.Healthy && !p.healthy.IsZero() {
		self.HealthyFor = time.Since(p.healthy)
	}
	self.bound()
	return self
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

// fresh reports whether a request was not received from another node before.
func (p *Peers) fresh(r received) bool { return p.mailboxOf(r.Kind).fresh(r.Nonce) }

// publish goes to all nodes, in the background: a hung one must not hold up the rest.
func (p *Peers) publish(ctx context.Context, q request) {
	ctx = context.WithoutCancel(ctx)
	p.requests.background(func() { p.c.publish(ctx, q, p.c.CallTimeout) })
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

// Package peers exchanges messages between the candidates of an election: what each candidate is
// (the roll call), requests to hand over, and, where the order of succession needs it, who
// should lead next. All of it is hints: the lock alone decides who leads, and the state machine
// waits for nothing here.
//
// A request passes these, from top to bottom:
//
//	Channel        publishes it and collects the answers: the side of operators (channel.go)
//	Peers.receive  on the subscription's goroutine: parses it, drops what does not concern this candidate (loop.go)
//	mailbox        one for each of the two channels; what exceeds its bounds is dropped (loop.go)
//	Peers.run      the goroutine of this candidate's peers: answers, one request after the other (loop.go)
//	Self           the candidate: what it is, whether it leads, an end of its term
//
// In any order but a race, run also keeps a roster of the others, and names the heir (succession.go).
package peers

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// Self is the candidate of this process. Its methods are called on many goroutines, and
// do no I/O unless noted.
type Self interface {
	// Info returns what the candidate publishes of itself, without what Peers adds: Host, PID
	// and RunningFor. HealthyFor may be longer than RunningFor.
	Info() Candidate
	// Leading returns the token of the term that the candidate leads; false: it does not lead.
	Leading() (token uint64, ok bool)
	// HandOver ends the term with that token in favour of the incarnation to; "": of any.
	HandOver(token uint64, to string, why error)
	// Yieldable queries Redis, and returns why no other candidate could be elected after a
	// handover that no operator requested; nil if it could. It blocks for two calls to the nodes.
	Yieldable(ctx context.Context) error
	// IsPaused reports whether the election is paused, as far as the candidate knows.
	IsPaused() bool
	// ReadPause reads from Redis whether the election is paused.
	ReadPause(ctx context.Context)
}

// Config configures Peers.
type Config struct {
	Channel
	Self Self
	// NotSubscribed is called with the reason when the subscription to a node fails, also while
	// this candidate leads: no request can reach it through that node.
	NotSubscribed func(error)
	// OtherVersion is called with the version of a message whose sender has another protocol.
	OtherVersion func(int)
	// Go runs a function in the background; the owner of Peers waits for its end.
	Go func(func())

	Incarnation                                string
	Order                                      Order
	Lease, RenewEvery, RetryEvery, CallTimeout time.Duration
}

// Peers is one candidate's side of this exchange.
type Peers struct {
	c           Config
	pauseEnded  chan struct{}
	roleChanged chan struct{}
	requests    *mailbox
	rollCalls   *mailbox
	heir        atomic.Pointer[string] // an incarnation; set while leading

	// owned by Start and Stop; all goroutines may read since in between
	since         time.Time // when this candidate began to run
	subscriptions []*pubsub.Subscription
	running       sync.WaitGroup

	// owned by run
	others        roster
	shown         string    // what was last published of role and health
	rollCallAt    time.Time // when this candidate, as leader, last called the roll
	rollCallToken uint64    // token of the term of that roll call
	// A report that a pause has begun or ended is unconfirmed: anyone can publish one.
	pauseRead time.Time        // when Redis was last queried whether the election is paused
	pauseDue  <-chan time.Time // when it is next; nil: no report is open
}

// host returns the name of this machine, for people to read.
var host = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})

// New does no I/O.
func New(c Config) *Peers {
	return &Peers{
		c: c, pauseEnded: make(chan struct{}, 1), roleChanged: make(chan struct{}, 1),
		requests: newMailbox(c.Go, 64), rollCalls: newMailbox(c.Go, 16),
	}
}

// RoleChanged has the candidate's new role published. It never blocks. In a race it does nothing:
// no other candidate needs the role, and a goroutine that wakes would delay a handover.
func (p *Peers) RoleChanged() {
	if p.c.Order != Race {
		pubsub.Wake(p.roleChanged)
	}
}

// PauseEnded is signaled when the pause that the candidate waits for may have ended.
func (p *Peers) PauseEnded() <-chan struct{} { return p.pauseEnded }

// Heir returns the incarnation that should lead after this term; "": none in particular.
func (p *Peers) Heir() string {
	if heir := p.heir.Load(); heir != nil {
		return *heir
	}
	return ""
}

func (p *Peers) mailboxOf(kind string) *mailbox {
	if kind == rollCall {
		return p.rollCalls
	}
	return p.requests
}

// self returns what this candidate publishes of itself.
func (p *Peers) self() Candidate {
	self := p.c.Self.Info()
	self.Host, self.PID, self.RunningFor = host(), os.Getpid(), time.Since(p.since)
	self.HealthyFor = min(self.HealthyFor, self.RunningFor)
	self.bound()
	return self
}

// fresh reports whether a request arrives for the first time: each comes once from every node.
func (p *Peers) fresh(r received) bool { return p.mailboxOf(r.Kind).fresh(r.Nonce) }

// publish sends a request to all nodes, in the background: a hung node must not delay what comes after.
func (p *Peers) publish(ctx context.Context, q request) {
	ctx = context.WithoutCancel(ctx)
	p.requests.background(func() { p.c.publish(ctx, q, p.c.CallTimeout) })
}

// Package peers is what the candidates of an election publish for each other: who they are
// (the roll call), requests to hand over, and, where the order of succession needs it, who
// goes first. All of it is hints: the lock alone decides who leads, and the state machine
// waits for nothing here.
package peers

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Self is the candidate of this process. Its methods are called on many goroutines, and
// do no I/O unless noted.
type Self interface {
	// Info is what the candidate is, without what Peers adds: Host, PID and RunningFor.
	// HealthyFor may be longer than that.
	Info() Candidate
	// Leading is the token of the term that the candidate serves; false: none.
	Leading() (token uint64, ok bool)
	// HandOver ends the term with that token in favour of an incarnation; "": of any.
	HandOver(token uint64, to string, why error)
	// Warm gets the candidate ready to lead; it blocks for that, for limit at most if it obeys its context.
	Warm(ctx context.Context, limit time.Duration) error
	// Yieldable queries Redis: the error is why no other candidate could be elected after a
	// handover that no operator requested.
	Yieldable(ctx context.Context) error
	// IsPaused reports whether the election is paused, as far as the candidate knows.
	IsPaused() bool
	// ReadPause reads from Redis whether it is.
	ReadPause(ctx context.Context)
}

// Config is what Peers is made of.
type Config struct {
	Channel
	Self Self
	Log  *slog.Logger
	// NotSubscribed is called with the reason when a node sends no messages, also while this
	// candidate leads: no request can reach it then.
	NotSubscribed func(error)
	// Go runs a function in the background; the owner of Peers waits for it.
	Go func(func())

	ID, Incarnation string
	Order           Order
	// Following is the role of those that could lead next, and Stopping that of a leader
	// whose release still names the heir.
	Following, Stopping string

	Lease, RenewEvery, RetryEvery, CallTimeout time.Duration
}

// Peers is one candidate's end of what the candidates publish for each other.
type Peers struct {
	c          Config
	pauseEnded chan struct{}
	requests   *mailbox
	rollCalls  *mailbox
	heirs      atomic.Pointer[[]string] // incarnations; set while leading
	worker     worker

	// of Start and Stop, but for since, which is not changed in between
	since       time.Time // when this candidate began to run
	unsubscribe [2]func()
	again       *time.Timer // when to look again; nil in a race

	// of the worker
	introduced bool
	others     roster
	shown      string // what was last published of role and health
	called     time.Time
	led        uint64          // token of the term of the last roll call
	twins      map[string]bool // incarnations that were seen under this candidate's id
	pauses     pauseCheck
}

// Host is the name of this machine, for people and for operators who cordon all that runs there.
var Host = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})

// New does no I/O.
func New(c Config) *Peers {
	return &Peers{c: c, pauseEnded: make(chan struct{}, 1), requests: newMailbox(c.Go), rollCalls: newMailbox(c.Go)}
}

// RoleChanged has the candidate looked at anew where the others need to know. It never
// blocks. In a race none of them does, and the goroutine that it would wake would stand in
// the way of a handover.
func (p *Peers) RoleChanged() {
	if p.c.Order != Race {
		p.worker.wake()
	}
}

// PauseEnded is signaled when the pause that the candidate waits for may have ended.
func (p *Peers) PauseEnded() <-chan struct{} { return p.pauseEnded }

// Heir is the incarnation that goes first after the term, "" for none.
func (p *Peers) Heir() string {
	if all := p.Heirs(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Heirs are the incarnations that could go first, in the order in which they should.
func (p *Peers) Heirs() []string {
	if all := p.heirs.Load(); all != nil {
		return *all
	}
	return nil
}

func (p *Peers) mailboxOf(kind string) *mailbox {
	if kind == rollCall {
		return p.rollCalls
	}
	return p.requests
}

// self is what this candidate publishes of itself.
func (p *Peers) self() Candidate {
	self := p.c.Self.Info()
	self.Host, self.PID, self.RunningFor = Host(), os.Getpid(), time.Since(p.since)
	self.HealthyFor = min(self.HealthyFor, self.RunningFor)
	self.bound()
	return self
}

// fresh reports whether a request was not received from another node before.
func (p *Peers) fresh(r received) bool { return p.mailboxOf(r.Kind).fresh(r.Nonce) }

// publish goes to all nodes, in the background: a hung one must not hold up the rest.
func (p *Peers) publish(ctx context.Context, q request) {
	ctx = context.WithoutCancel(ctx)
	p.requests.background(func() { p.c.publish(ctx, q, p.c.CallTimeout) })
}

// pauseCheck is an unconfirmed report: that there is a pause, or that it has ended.
// Anyone can publish one; only Redis knows.
type pauseCheck struct {
	open    bool
	read    time.Time // when Redis was read last
	waiting bool      // for the time to read again
}

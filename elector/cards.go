package elector

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// cards is a candidate's part in the talk of an election: it answers the roll
// call, hears requests to hand over, and, where the Succession needs it, knows
// the others. Nothing in it is ever waited for by the machine.
type cards struct {
	*candidate

	election *Election
	nudged   chan struct{} // the pause is over: claim now
	host     string
	poked    chan struct{}
	saids    chan struct{}          // a place for each message under way
	first    atomic.Pointer[string] // incarnation of the favourite; set while leading

	mu    sync.Mutex
	heard []asked

	// of the goroutine of run
	since   time.Time // when this candidate began to take part
	healthy time.Time // since when it has been healthy; zero: it isn't
	others  roster
	shown   string // what was last told of role and health
	called  time.Time
	led     uint64 // token of the term of the last roll call
	seen    map[string]bool
	twins   map[string]bool // incarnations that were seen under this candidate's id
	pauses  doubt
}

type asked struct {
	node int
	question
}

// What a flood on the channel costs at most: whoever makes one gets no answers.
const (
	mostHeard  = 256  // messages that wait
	mostSaid   = 8    // messages under way: a hung node takes its time for each
	mostOthers = 1000 // candidates in a roster
)

func newCards(c *candidate, el *Election) *cards {
	host, _ := os.Hostname() // for people only
	return &cards{candidate: c, election: el, nudged: make(chan struct{}, 1), host: host, poked: make(chan struct{}, 1), saids: make(chan struct{}, mostSaid)}
}

func (c *cards) poke() {
	select {
	case c.poked <- struct{}{}:
	default:
	}
}

// favourite is the incarnation that goes first after the term, "" for none.
func (c *cards) favourite() string {
	if p := c.first.Load(); p != nil {
		return *p
	}
	return ""
}

// hear runs on the subscription's goroutine.
func (c *cards) hear(s pubsub.Signal) {
	if s.Kind != pubsub.Message {
		return
	}
	q, err := parseQuestion(s.Payload)
	if err != nil || q.Election != c.cfg.Election {
		return
	}
	if q.Card != nil && q.Card.Incarnation == c.incarnation {
		return // our own
	}
	c.mu.Lock()
	if len(c.heard) < mostHeard {
		c.heard = append(c.heard, asked{s.Node, q})
	}
	c.mu.Unlock()
	c.poke()
}

// run takes part until ctx ends.
func (c *cards) run(ctx context.Context) {
	c.since, c.others, c.seen, c.twins = time.Now(), roster{}, map[string]bool{}, map[string]bool{}
	c.shown, c.called, c.led, c.healthy, c.pauses = "", time.Time{}, 0, time.Time{}, doubt{}
	stop := c.bus.Subscribe(c.keys.Ask, c.hear)
	defer stop()
	defer c.leave()
	look := time.NewTicker(c.timing.RenewEvery)
	defer look.Stop()
	if c.cfg.Succession == SuccessionRace { // with the others the first look does
		c.introduce()
	}
	for {
		c.look()
		select {
		case <-ctx.Done():
			return
		case <-c.poked:
		case <-look.C:
		}
		for _, a := range c.take() {
			c.answer(ctx, a)
		}
		c.confirmPause(ctx)
	}
}

func (c *cards) take() []asked {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.heard
	c.heard = nil
	return all
}

// leave says good-bye, so that nobody waits for this candidate.
func (c *cards) leave() {
	c.first.Store(nil)
	if c.cfg.Succession != SuccessionRace {
		card := c.card()
		c.tell(context.Background(), question{Kind: sayGone, Card: &card})
	}
}

// look notes this candidate's health, and does what the Succession asks for.
func (c *cards) look() {
	card := c.card()
	switch {
	case !card.Healthy:
		c.healthy = time.Time{}
	case c.healthy.IsZero():
		c.healthy = time.Now()
	}
	if c.cfg.Succession == SuccessionRace {
		return
	}
	now := time.Now()
	c.others.forget(now, 10*c.cfg.Lease)
	if now.Sub(c.called) > c.timing.RenewEvery { // whoever did not answer the roll call is not there
		c.others.forget(now, now.Sub(c.called))
	}
	if shown := string(card.Role) + " " + card.Detail; shown != c.shown {
		c.shown = shown
		c.tell(context.Background(), question{Kind: sayCard, Card: &card})
	}
	t := c.validTerm()
	if t == nil {
		if card.Role != RoleStopping { // its release still names the favourite
			c.first.Store(nil)
		}
		return
	}
	higher := c.higher(card, now)
	// Somebody for whom this leader should yield may have died since it spoke.
	doubtful := higher != nil && now.Sub(higher.at) > c.timing.RenewEvery && now.Sub(c.called) > c.timing.RenewEvery
	if t.token != c.led || now.Sub(c.called) > 4*c.cfg.Lease || doubtful {
		c.led, c.called = t.token, now
		c.tell(context.Background(), question{Kind: callCards, Nonce: rand.Text()})
	}
	var first *string
	if f := c.others.favourite(c.cfg.Succession, card); f != nil {
		first = &f.Incarnation
	}
	c.first.Store(first)
	if higher != nil && higher.at.After(c.called) && now.Sub(higher.at) <= c.timing.RenewEvery {
		t.hand(handover{to: higher.Incarnation, why: errOutranked})
	}
}

// higher is whom a leader has to make room for, once it has answered the roll
// call of this term.
func (c *cards) higher(self CandidateStatus, now time.Time) *entry {
	if c.cfg.Succession != SuccessionPriority || c.isPaused() {
		return nil
	}
	return c.others.bully(self, c.cfg.Lease, now)
}

// card is what this candidate tells of itself.
func (c *cards) card() CandidateStatus {
	now := c.currentRole()
	card := CandidateStatus{
		ID: c.cfg.ID, Incarnation: c.incarnation, Advertise: c.cfg.Advertise, Version: c.cfg.Version, Host: c.host,
		Role: now, Priority: c.cfg.Priority, RunningFor: time.Since(c.since),
	}
	if t := c.term.Load(); t != nil && (now == RoleLeading || now == RoleStopping) {
		card.Token = t.token
	}
	card.Nodes = votingNodes(c.nodes.Names(), c.voter.Identities())
	err := c.check()
	if now == RoleIdle { // it is about to campaign
		err = c.probes.failing()
	}
	if err != nil {
		card.Detail = err.Error()
	}
	card.Healthy = err == nil
	if card.Healthy && !c.healthy.IsZero() {
		card.HealthyFor = time.Since(c.healthy)
	}
	card.tame()
	return card
}

// answer does what a question asks for. A question comes once from each node.
func (c *cards) answer(ctx context.Context, a asked) {
	switch a.Kind {
	case sayCard:
		if a.Card != nil {
			c.twin(*a.Card)
		}
		if a.Card != nil && c.cfg.Succession != SuccessionRace {
			c.others.note(*a.Card, time.Now())
		}
	case sayGone:
		if a.Card != nil {
			delete(c.others, a.Card.Incarnation)
		}
	case askRollCall:
		if c.fresh(a) {
			card := c.card()
			c.reply(ctx, a, answer{Card: &card})
		}
	case callCards:
		if c.fresh(a) {
			card := c.card()
			c.tell(ctx, question{Kind: sayCard, Card: &card})
		}
	case askHandOver:
		if t := c.validTerm(); t != nil && c.fresh(a) {
			c.reply(ctx, a, c.handOver(t, a))
		}
	case sayPaused, sayResumed:
		c.pauses.open = true
	}
}

// handOver ends the term when it is the one that is meant.
func (c *cards) handOver(t *Term, a asked) answer {
	card := c.card()
	if a.Token != t.token {
		return answer{Card: &card, Refused: "the term that you mean is over"}
	}
	why := errors.New("requested by an operator")
	if a.Note != "" {
		why = errors.New("requested by an operator: " + a.Note)
	}
	t.hand(handover{to: a.To, why: why})
	return answer{Card: &card}
}

// fresh tells whether a question was not heard from another node before.
func (c *cards) fresh(a asked) bool {
	if a.Nonce == "" || c.seen[a.Nonce] {
		return false
	}
	if len(c.seen) >= mostHeard {
		clear(c.seen)
	}
	c.seen[a.Nonce] = true
	return true
}

// say runs f in the background, unless too much is under way already.
func (c *cards) say(f func()) {
	select {
	case c.saids <- struct{}{}:
	default:
		return
	}
	c.voter.Go(func() {
		defer func() { <-c.saids }()
		f()
	})
}

// tell goes to all nodes, in the background: a hung one must not hold up the rest.
func (c *cards) tell(ctx context.Context, q question) {
	q.Election = c.cfg.Election
	payload := q.encode()
	ctx = context.WithoutCancel(ctx)
	c.say(func() {
		_ = c.nodes.Publish(ctx, c.keys.Ask, payload, c.timing.CallTimeout())
	})
}

func (c *cards) reply(ctx context.Context, a asked, with answer) {
	channel := c.keys.Reply(a.Nonce)
	ctx = context.WithoutCancel(ctx)
	c.say(func() {
		_ = c.nodes.PublishTo(ctx, a.node, channel, with.encode(), c.timing.CallTimeout())
	})
}

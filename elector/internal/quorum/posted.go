package quorum

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/conns"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// broadcast is what the requests of one round have in common that no goroutine waits for.
type broadcast struct {
	*broadcastKind

	v    *Voter
	keys []string
	same []any         // the arguments, but for those that each request has of its own
	left time.Duration // nothing is sent after that
	fit  func() bool   // asked when a node's turn comes: false: nothing is sent any more
}

// broadcastKind is what all errands by one script have in common.
type broadcastKind struct {
	script protocol.ElectionScript
	yes    protocol.Status             // the answer that a majority has to give
	usual  protocol.Status             // the answer that nearly all get: nothing is logged then
	claims bool                        // the answers of all nodes are wanted, not only those that decide
	fill   func(p *posted, args []any) // puts those in that each request has of its own
}

// postedRound is the round of a broadcast, with its requests. Nearly all are used again: a process with ten thousand elections
// makes four thousand a second, and memory that it has not used for long is the slowest part of each.
type postedRound struct {
	round

	nodes     *Nodes
	posts     []posted // by node
	ended     func(Tally)
	onDecided func([]protocol.Answer)
	// uses is how often it is used still: by the call of each request, and by its end. An end that is out of the ordinary,
	// and a call that is left behind, stay for ever: then it is not used again.
	uses atomic.Int32
}

// start sends a broadcast to all nodes. It does not block. ended gets the outcome, once, on the goroutine of the call, which serves other elections too; it
// must not keep the answers.
func (ns *Nodes) start(e broadcast, began time.Time, ended func(Tally)) {
	r, again := ns.rounds.Get().(*postedRound)
	if !again {
		r = &postedRound{nodes: ns, posts: make([]posted, ns.Len())}
		r.onDecided = func(answers []protocol.Answer) { r.ended(ns.Tally(answers, time.Since(r.started))) }
	}
	r.ended = ended
	r.uses.Store(int32(2 * len(r.posts)))
	r.post(began, len(r.posts), ns.Majority(), e.yes, r.onDecided)
	if e.claims {
		r.every = true
		e.v.ignoreUnresponsive(&r.round)
	}
	for node := range r.posts {
		p := &r.posts[node]
		*p = posted{broadcast: e, node: node, round: r}
		p.Of(e.keys, p)
	}
	for node := range r.posts {
		r.posts[node].send()
	}
}

// release is the end of one of its uses.
func (r *postedRound) release() {
	if r.uses.Add(-1) == 0 && r.timer == nil { // a timer that was stopped may run still
		r.nodes.rounds.Put(r)
	}
}

// posted is the request of a broadcast to one node.
type posted struct {
	transport.Request
	broadcast

	node  int
	round *postedRound
	own   [protocol.MaxArity]any // its arguments
}

// send is callLate for a round that no goroutine waits for. Only a request that has to wait for its
// turn has a goroutine of its own.
func (p *posted) send() {
	v := p.v
	q, snd := v.queues[p.node], v.nodes.list[p.node].sender
	v.background.begin()
	if !snd.Posts() || !q.take() {
		go func() {
			defer v.background.end()
			ctx, cancel := conns.Until(context.Background(), p.left)
			defer cancel()
			p.round.record(p.node, p.judged(v.callLate(ctx, p.node, p.script, p.broadcast.keys, p.Args)))
		}()
		return
	}
	snd.Post(p.script, v.cfg.CallTimeout, p.round.started, min(p.left, (transport.Connecting+1)*v.cfg.CallTimeout), &p.Request)
}

// Args are made when it is sent.
func (p *posted) Args() []any {
	if !p.fit() {
		p.round.end() // none waits for the others, a hung one perhaps: a release may be next
		return nil
	}
	args := p.own[:len(p.same)]
	copy(args, p.same)
	p.fill(p, args)
	return args
}

// Then takes its outcome.
func (p *posted) Then(o transport.Outcome) {
	v, q := p.v, p.v.queues[p.node]
	o.Answer.Settled = q.meet(o.Answer.ID, o.Sent, v.cfg.Lease)
	ordinary := o.Answer.Status == p.usual && !q.isUnresponsive()
	q.give()
	if ordinary {
		p.end(o)
		p.round.release()
	} else { // what is logged then must not hold up the others that the call was for
		go p.end(o)
	}
}

func (p *posted) end(o transport.Outcome) {
	defer p.v.background.end()
	p.round.record(p.node, p.judged(p.v.answered(p.node, o, time.Since(p.round.started) < p.left)))
}

// judged is the answer, with what this candidate's version makes of it.
func (p *posted) judged(a protocol.Answer) protocol.Answer {
	if p.claims {
		a.Outdated = p.v.queues[p.node].judge(a, p.v.cfg.Version)
	}
	return a
}

// Carried is the end of the call that it travelled in.
func (p *posted) Carried() { p.round.release() }

package quorum

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// broadcast is what the requests of one round share if no goroutine waits for them.
type broadcast struct {
	*broadcastKind

	v    *Voter
	keys []string
	same []any         // the arguments, except those that differ by node
	left time.Duration // from the round's start; nothing is sent after that
	fit  func() bool   // called when a request is sent; false: it is dropped
}

// broadcastKind is what all broadcasts of one script share.
type broadcastKind struct {
	script protocol.ElectionScript
	yes    protocol.Status             // the answer that a majority has to give
	usual  protocol.Status             // the answer of nearly all requests: nothing is logged for it
	fill   func(p *posted, args []any) // sets the arguments that differ by node
}

// postedRound is the round of a broadcast, with its requests. Nearly all are reused: a process with
// ten thousand elections makes four thousand a second, and access to memory that is no longer cached
// would be the slowest part of each.
type postedRound struct {
	round

	nodes     *Nodes
	posts     []posted // by node
	ended     func(Tally)
	onDecided func([]protocol.Answer)
	// uses counts what still uses the round: for each request its call (until CallEnded) and its
	// outcome (until Done). A request with an unusual outcome or a goroutine of its own, or whose
	// time is over before its call ends, never releases its uses: such a round is not reused.
	uses atomic.Int32
}

// start sends a broadcast to all nodes. It does not block. ended gets the outcome, once, on a
// goroutine that serves other elections too; it must not keep the answers.
func (ns *Nodes) start(e broadcast, began time.Time, ended func(Tally)) {
	r, again := ns.rounds.Get().(*postedRound)
	if !again {
		r = &postedRound{nodes: ns, posts: make([]posted, ns.Len())}
		r.onDecided = func(answers []protocol.Answer) { r.ended(ns.Tally(answers, time.Since(r.started))) }
	}
	r.ended = ended
	r.uses.Store(int32(2 * len(r.posts)))
	r.post(began, len(r.posts), ns.Majority(), e.yes, r.onDecided)
	for node := range r.posts {
		p := &r.posts[node]
		*p = posted{broadcast: e, node: node, round: r}
		p.Init(e.keys, p)
	}
	for node := range r.posts {
		r.posts[node].send()
	}
}

// release ends one use of the round, and the last one makes it available for reuse.
func (r *postedRound) release() {
	if r.uses.Add(-1) == 0 && r.timer == nil { // even a stopped timer may still be running
		r.nodes.rounds.Put(r)
	}
}

// posted is the request of a broadcast to one node.
type posted struct {
	transport.Request
	broadcast

	node  int
	round *postedRound
	own   [protocol.MaxArity]any // the arguments
}

// send is callLate for a round that no goroutine waits for. Only a request that has to wait for its
// turn, or can't be posted, gets a goroutine of its own.
func (p *posted) send() {
	v := p.v
	q, snd := v.queues[p.node], v.nodes.list[p.node].sender
	v.background.begin()
	if !snd.CanPost() || !q.take() {
		go func() {
			defer v.background.end()
			ctx, cancel := context.WithTimeout(context.Background(), p.left)
			defer cancel()
			p.round.record(p.node, v.callLate(ctx, p.node, p.script, p.broadcast.keys, p.Args))
		}()
		return
	}
	snd.Post(p.script, v.cfg.CallTimeout, p.round.started, min(p.left, (transport.ConnectLimits+1)*v.cfg.CallTimeout), &p.Request)
}

// Args makes the arguments when the request is sent; nil: it is no longer wanted.
func (p *posted) Args() []any {
	if !p.fit() {
		p.round.end() // don't wait for other nodes, which may hang: a release may be next
		return nil
	}
	args := p.own[:len(p.same)]
	copy(args, p.same)
	p.fill(p, args)
	return args
}

// Done takes the outcome.
func (p *posted) Done(o transport.Outcome) {
	v, q := p.v, p.v.queues[p.node]
	o.Answer.Settled = q.meet(o.Answer.ID, o.Sent, v.cfg.Lease)
	ordinary := o.Answer.Status == p.usual && !q.isUnresponsive()
	q.give()
	if ordinary {
		p.end(o)
		p.round.release()
	} else { // logging it must not delay the other elections of the call
		go p.end(o)
	}
}

func (p *posted) end(o transport.Outcome) {
	defer p.v.background.end()
	p.round.record(p.node, p.v.answered(p.node, o, time.Since(p.round.started) < p.left))
}

// CallEnded takes the end of the call.
func (p *posted) CallEnded() { p.round.release() }

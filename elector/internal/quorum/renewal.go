package quorum

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/conns"
)

// StartRenewal prolongs the term that the last Claim won, in one round trip, at most
// for the call time-out. Nothing is sent after left, the time to the term's
// deadline; what was sent is not cancelled when a majority has answered. fit is
// asked when a node's turn comes, on many goroutines: a request that had to wait
// behind hung ones must not go out on a verdict from before that, or for a term
// that has ended since.
//
// It does not block. ended gets the outcome, once, on a goroutine that others wait for; it must not keep the answers.
func (v *Voter) StartRenewal(left time.Duration, token uint64, heir Heir, fit func() bool, ended func(Tally)) {
	began := time.Now()
	v.nameNodes(began)
	if at := v.cfg.Advertise(); at != v.lock.Advertise {
		v.lock.Advertise, v.term.args = at, nil
	}
	if of := &v.term; of.args == nil || of.token != token || of.heir != heir {
		v.term = renewed{
			token: token, heir: heir, keys: v.cfg.Keys.forRenew(),
			args: renewArgs(v.lock.String(), v.cfg.Incarnation, v.seq, v.cfg.Lease, token, 0, heir, "", v.cfg.Version, ""),
		}
	}
	r := v.nodes.renewal(began, ended)
	for node := range r.posts {
		p := &r.posts[node]
		*p = posted{v: v, node: node, round: r, left: left, fit: fit, same: v.term.args}
		p.keys, p.requester = v.term.keys, p
	}
	for node := range r.posts {
		r.posts[node].send()
	}
}

// nameNodes has the lock name the nodes that answered lately.
func (v *Voter) nameNodes(now time.Time) {
	if v.named == nil {
		v.named = make([]string, len(v.queues))
		v.lock.Identities, v.term.args = "", nil
	}
	changed := false
	for i, q := range v.queues {
		if id := q.known(now, v.cfg.Lease); id != v.named[i] {
			v.named[i], changed = id, true
		}
	}
	if changed {
		v.lock.Identities, v.term.args = IdentitiesOf(v.named), nil
	}
}

// renewing is the round of one renewal, with its requests. Nearly all are used again: a process with ten thousand elections
// makes four thousand a second, and memory that it has not used for long is the slowest part of each.
type renewing struct {
	round

	nodes     *Nodes
	posts     []posted // by node
	ended     func(Tally)
	onDecided func([]Answer)
	// uses is how often it is used still: by the call of each request, and by its end. An end that is out of the ordinary,
	// and a call that is left behind, stay for ever: then it is not used again.
	uses atomic.Int32
}

// renewal is the round of one that begins.
func (ns *Nodes) renewal(began time.Time, ended func(Tally)) *renewing {
	r, again := ns.renewals.Get().(*renewing)
	if !again {
		r = &renewing{nodes: ns, posts: make([]posted, ns.Len())}
		r.onDecided = func(answers []Answer) { r.ended(ns.Tally(answers, time.Since(r.started))) }
	}
	r.ended = ended
	r.uses.Store(int32(2 * len(r.posts)))
	r.post(began, len(r.posts), ns.Majority(), Mine, r.onDecided)
	return r
}

// release is the end of one of its uses.
func (r *renewing) release() {
	if r.uses.Add(-1) == 0 && r.timer == nil { // a timer that was stopped may run still
		r.nodes.renewals.Put(r)
	}
}

// posted is the request of a renewal to one node.
type posted struct {
	request

	v     *Voter
	node  int
	round *renewing
	left  time.Duration
	fit   func() bool
	same  []any // what all renewals of the term have
	own   [renewArity]any
}

// send is callLate for a round that no goroutine waits for. Only a request that has to wait for its
// turn has a goroutine of its own.
func (p *posted) send() {
	v := p.v
	q, snd := v.queues[p.node], v.nodes.list[p.node].sender
	v.background.begin()
	if !snd.posts() || !q.take() {
		go func() {
			defer v.background.end()
			ctx, cancel := conns.Until(context.Background(), p.left)
			defer cancel()
			p.round.record(p.node, v.callLate(ctx, p.node, renewScript, p.keys, p.args))
		}()
		return
	}
	snd.post(renewScript, v.cfg.CallTimeout, p.round.started, min(p.left, (connecting+1)*v.cfg.CallTimeout), &p.request)
}

// args are made when it is sent.
func (p *posted) args() []any {
	if !p.fit() {
		p.round.end() // none waits for the others, a hung one perhaps: a release may be next
		return nil
	}
	copy(p.own[:], p.same)
	s := p.v.queues[p.node].show()
	p.own[renewCounter], p.own[renewShown], p.own[renewIdentity] = s.counter, s.identity, s.offer
	return p.own[:]
}

// then takes its outcome.
func (p *posted) then(o outcome) {
	v, q := p.v, p.v.queues[p.node]
	o.answer.Settled = q.meet(o.answer.ID, o.sent, v.cfg.Lease)
	ordinary := o.answer.Status == Mine && !q.isUnresponsive()
	q.give()
	if ordinary {
		p.end(o)
		p.round.release()
	} else { // what is logged then must not hold up the others that the call was for
		go p.end(o)
	}
}

func (p *posted) end(o outcome) {
	defer p.v.background.end()
	p.round.record(p.node, p.v.answered(p.node, o, time.Since(p.round.started) < p.left))
}

// carried is the end of the call that it travelled in.
func (p *posted) carried() { p.round.release() }

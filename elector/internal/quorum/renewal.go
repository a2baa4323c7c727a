package quorum

import (
	"context"
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
// It does not block. ended gets the outcome, once, on a goroutine that others wait for.
func (v *Voter) StartRenewal(left time.Duration, token uint64, heir Heir, fit func() bool, ended func(Tally)) {
	v.nameNodes()
	v.lock.Advertise = v.cfg.Advertise()
	if of := &v.term; of.args == nil || of.lock != v.lock || of.token != token || of.heir != heir {
		v.term = renewed{
			lock: v.lock, token: token, heir: heir, keys: v.cfg.Keys.forRenew(),
			args: renewArgs(v.lock.String(), v.cfg.Incarnation, v.seq, v.cfg.Lease, token, 0, heir, "", v.cfg.Version, ""),
		}
	}
	began := time.Now()
	r := newRound(v.nodes.Len(), v.nodes.Majority(), Mine, nil)
	r.decided = func(answers []Answer) { ended(v.nodes.Tally(answers, time.Since(began))) }
	all := make([]posted, len(v.queues))
	for node := range all {
		p := &all[node]
		p.v, p.node, p.round, p.left, p.began, p.fit, p.same = v, node, r, left, began, fit, v.term.args
		p.keys, p.requester = v.term.keys, p
		p.send()
	}
}

// nameNodes has the lock name the nodes that answered lately.
func (v *Voter) nameNodes() {
	if v.named == nil {
		v.named = make([]string, len(v.queues))
		v.lock.Identities = ""
	}
	changed := false
	for i, q := range v.queues {
		if id := q.known(v.cfg.Lease); id != v.named[i] {
			v.named[i], changed = id, true
		}
	}
	if changed {
		v.lock.Identities = IdentitiesOf(v.named)
	}
}

// posted is the request of a renewal to one node.
type posted struct {
	request

	v     *Voter
	node  int
	round *round
	left  time.Duration
	began time.Time
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
	snd.post(renewScript, v.cfg.CallTimeout, min(p.left, (connecting+1)*v.cfg.CallTimeout), &p.request)
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
	} else { // what is logged then must not hold up the others that the call was for
		go p.end(o)
	}
}

func (p *posted) end(o outcome) {
	defer p.v.background.end()
	p.round.record(p.node, p.v.answered(p.node, o, time.Since(p.began) < p.left))
}

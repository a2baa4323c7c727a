package quorum

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Claim is one attempt to win, with a fresh lock value. It blocks for one round
// trip to a majority (two when the nodes granted different tokens), at most for
// the call time-out. hint is the lowest token that the caller wants; markers
// are the notes of nodes that abstained and that the caller found to be a
// bootstrap. won is the token, 0 when the claim was lost. What a lost attempt
// was granted is given back in the background.
func (v *Voter) Claim(ctx context.Context, hint uint64, markers []string) (won uint64, t Tally) {
	seq, value := v.newAttempt()
	r := newRound(v.nodes.Len(), v.nodes.Majority(), protocol.Won, func(node int) protocol.Answer {
		marker := ""
		if node < len(markers) {
			marker = markers[node]
		}
		shown, version := v.queues[node].versions(v.cfg.Version)
		a := v.callLate(ctx, node, protocol.ClaimScript, v.cfg.Keys.ForClaim(), v.whileAlive(seq,
			protocol.ClaimArgs(value, v.cfg.Incarnation, seq, v.cfg.Lease, hint, marker, v.cfg.Keys, protocol.NewIdentity(), shown, version)))
		a.Outdated = v.queues[node].judge(a, v.cfg.Version)
		return a
	})
	v.ignoreUnresponsive(r)
	granted := v.poll(ctx, r, value)
	r.awaitExpected()
	return v.decide(ctx, v.tally(r), granted)
}

// StartClaim is Claim for a follower that expects to lose, as it does nearly always when the lease that it saw would end: no
// goroutine waits for the votes. false: they can't be cast so, and nothing was done. It does not block. ended gets
// them, once, on the goroutine of the call, which serves other elections too: it must neither block nor keep the answers. Then the caller has them settled by
// Settle or, where they show nothing but a leader, by Lost, before anything else is done with the Voter.
func (v *Voter) StartClaim(hint uint64, ended func(Tally)) bool {
	for _, n := range v.nodes.list {
		if !n.sender.Posts() {
			return false
		}
	}
	seq, value := v.newAttempt()
	args := protocol.ClaimArgs(value, v.cfg.Incarnation, seq, v.cfg.Lease, hint, "", v.cfg.Keys, "", "", "")
	e := broadcast{broadcastKind: &claims, v: v, keys: v.cfg.Keys.ForClaim(), same: args, left: v.cfg.Lease, fit: func() bool { return v.alive.Load() == seq }}
	v.nodes.start(e, time.Now(), ended)
	return true
}

// claims have the identity that the node may take, and the versions that it has shown, of their own.
var claims = broadcastKind{script: protocol.ClaimScript, yes: protocol.Won, usual: protocol.Held, claims: true, fill: func(p *posted, args []any) {
	q := p.v.queues[p.node]
	args[protocol.ClaimIdentity] = q.show().offer
	args[protocol.ClaimShown], args[protocol.ClaimVersion] = q.versions(p.v.cfg.Version)
}}

// Settle is what Claim does with the votes: it decides, and gives back what a lost attempt was granted.
func (v *Voter) Settle(ctx context.Context, t Tally) (won uint64, _ Tally) {
	granted := t.Majority(protocol.Won)
	if granted { // redsync decides that
		r := newRound(v.nodes.Len(), v.nodes.Majority(), protocol.Won, func(node int) protocol.Answer { return t.Answers[node] })
		granted = v.poll(ctx, r, v.lock.String())
	}
	return v.decide(ctx, t, granted)
}

// Lost ends an attempt that no node has granted.
func (v *Voter) Lost() { v.alive.Store(0) }

// newAttempt begins a new one, with a fresh lock value.
func (v *Voter) newAttempt() (seq uint64, value string) {
	v.seq++
	v.alive.Store(v.seq)
	v.lock = protocol.LockValue{
		Candidate: v.cfg.Candidate, Incarnation: v.cfg.Incarnation, Seq: v.seq,
		Nodes: v.nodes.Len(), Lease: v.cfg.Lease, Advertise: v.cfg.Advertise(),
		Identities: v.identities(),
	}
	v.named, v.term = nil, renewed{}
	for _, q := range v.queues {
		q.forget()
	}
	return v.seq, v.lock.String()
}

// decide is what the votes of all nodes come to.
func (v *Voter) decide(ctx context.Context, t Tally, granted bool) (won uint64, _ Tally) {
	for i, a := range t.Answers {
		if a.Status == protocol.Unknown && a.Err == nil { // out of time: it is not waited for again until it answers
			v.queues[i].markUnresponsive()
		}
	}
	if !granted {
		v.GiveBack(t)
		return 0, t
	}
	token, agreed := v.agree(ctx, t)
	if !agreed {
		v.Abandon()
		return 0, t
	}
	v.lock.Token = token
	return token, t
}

// poll has all nodes vote, and reports whether a majority granted the claim. The vote of a single node is the decision: redsync
// would pass it on, over a goroutine whose stack grows with each claim.
func (v *Voter) poll(ctx context.Context, r *round, value string) bool {
	if v.nodes.Len() == 1 {
		return r.vote(0).Status == protocol.Won
	}
	return newRedlock(v.nodes.Len(), v.cfg.Keys.Lock, value, v.cfg.Lease).claim(ctx, r) == nil
}

// agree finds the token that a majority granted. Where the values differ, the
// lower ones are raised to the highest, in a second round.
func (v *Voter) agree(ctx context.Context, t Tally) (token uint64, ok bool) {
	for _, a := range t.Answers {
		if a.Status == protocol.Won {
			token = max(token, a.Fence)
		}
	}
	votes := 0
	for _, a := range t.Answers {
		if a.Status == protocol.Won && a.Fence == token {
			votes++
		}
	}
	if votes >= v.nodes.Majority() {
		return token, true
	}
	seq := v.seq
	r := newRound(v.nodes.Len(), v.nodes.Majority(), protocol.Raised, func(node int) protocol.Answer {
		if a := t.Answers[node]; a.Status == protocol.Won && a.Fence == token {
			return protocol.Answer{Status: protocol.Raised, Fence: token}
		}
		return v.callLate(ctx, node, protocol.RaiseScript, v.cfg.Keys.ForRaise(), v.whileAlive(seq, protocol.RaiseArgs(v.cfg.Incarnation, seq, token)))
	})
	r.poll()
	r.awaitExpected() // a token that more nodes have survives more of them
	return token, v.tally(r).Majority(protocol.Raised)
}

// GiveBack is Abandon for the nodes of a failed claim that granted it, or may
// have: a definite loss left nothing behind, and costs no request.
func (v *Voter) GiveBack(t Tally) {
	v.alive.Store(0)
	for i, a := range t.Answers {
		if a.Status == protocol.Won || a.Status == protocol.Unknown {
			v.release(i, v.seq)
		}
	}
}

package quorum

import (
	"context"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Claim makes one attempt to win, with a fresh lock value. It blocks for one round
// trip to a majority (two if the nodes granted different tokens), each of at most
// the call time-out. hint is the lowest token that the caller wants. markers are the
// notes of nodes that abstained, by node, if the caller has decided to start a new
// election on them; else nil. won is the token, or 0 if the claim was lost. What a
// lost attempt was granted is given back in the background.
func (v *Voter) Claim(ctx context.Context, hint uint64, markers []string) (won uint64, t Tally) {
	seq, value := v.newAttempt()
	r := newRound(v.nodes.Len(), v.nodes.Majority(), protocol.Won, func(node int) protocol.Answer {
		marker := ""
		if node < len(markers) {
			marker = markers[node]
		}
		return v.callLate(ctx, node, protocol.ClaimScript, v.cfg.Keys.ClaimKeys(), v.whileAlive(seq,
			protocol.ClaimArgs(value, v.cfg.Incarnation, seq, v.cfg.Lease, hint, marker, v.cfg.Keys, protocol.NewIdentity())))
	})
	v.ignoreUnresponsive(r)
	granted := v.poll(ctx, r, value)
	r.awaitExpected()
	return v.decide(ctx, v.tally(r), granted)
}

// newAttempt begins a new attempt, with a fresh lock value.
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

// decide ends a claim by its votes: it returns the agreed token, or 0 after it has given back what
// the nodes granted.
func (v *Voter) decide(ctx context.Context, t Tally, granted bool) (won uint64, _ Tally) {
	for i, a := range t.Answers {
		if a.Status == protocol.Unknown && a.Err == nil { // out of time: no round waits for it until it answers again
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

// poll makes all nodes vote, and reports whether a majority granted the claim. The vote of a single
// node is the decision; redsync would only add a goroutine whose stack grows with each claim.
func (v *Voter) poll(ctx context.Context, r *round, value string) bool {
	if v.nodes.Len() == 1 {
		return r.vote(0).Status == protocol.Won
	}
	return newRedlock(v.nodes.Len(), v.cfg.Keys.Lock, value, v.cfg.Lease).claim(ctx, r) == nil
}

// agree returns the highest token that a node granted, once a majority has it. If too
// few nodes have it, a second round raises the lower tokens to it.
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
		return v.callLate(ctx, node, protocol.RaiseScript, v.cfg.Keys.RaiseKeys(), v.whileAlive(seq, protocol.RaiseArgs(v.cfg.Incarnation, seq, token)))
	})
	r.poll()
	r.awaitExpected() // the more nodes have the token, the more of them may fail
	return token, v.tally(r).Majority(protocol.Raised)
}

// GiveBack is Abandon for only those nodes that granted a failed claim, or may have:
// a node that refused it holds nothing of it, and needs no request.
func (v *Voter) GiveBack(t Tally) {
	v.alive.Store(0)
	for i, a := range t.Answers {
		if a.Status == protocol.Won || a.Status == protocol.Unknown {
			v.release(i, v.seq)
		}
	}
}

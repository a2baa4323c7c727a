package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Claim makes one attempt to win, with a fresh lock value. If too few nodes have answered the last request, it asks first
// whether it could (protocol.Free), and returns these answers if not. It blocks for one round trip to a majority (for
// another one if it asks, and if the nodes granted different tokens), each of at most the call time-out.
// hint is called when the claim is about to leave, with the answers to that question, if it was asked; it returns the
// lowest token that the caller wants, and clock, in ms, is another, within bounds. markers are the
// notes of nodes that abstained, by node, if the caller has decided to start a new
// election on them; else nil. A node that refuses the claim publishes to the channel
// echo, if it is not empty. won is the token, or 0 if the claim was lost. What a
// lost attempt was granted is given back in the background. After the end of ctx
// nothing is sent. A node that a rival holds, as far as this voter knows, is waited for, up to the call time-out, and
// any node for an eighth of it once a majority abstains.
func (v *Voter) Claim(ctx context.Context, hint func(asked Tally) uint64, clock uint64, markers []string, echo string) (won uint64, t Tally) {
	if v.mustAsk() {
		if t = v.askFirst(ctx, echo); !t.Majority(protocol.Free) || v.mustAsk() {
			return 0, t
		}
	}
	lowest := hint(t)
	v.newAttempt()
	value, r, ended := v.lock.String(), newRound(v.nodes, protocol.Won, true), make(chan *nodes.Request, v.nodes.Len())
	for i := range r.ignored {
		r.ignored[i] = v.state[i].unresponsive
		if rival := v.rival(i); rival != nil && rival.What != "" {
			r.ignored[i], r.patience = false, v.cfg.CallTimeout
		}
	}
	requests := make([]*nodes.Request, v.nodes.Len())
	for node := range requests {
		marker := ""
		if node < len(markers) {
			marker = markers[node]
		}
		what := protocol.Request{Value: value, Hint: lowest, Clock: clock, Marker: marker, Identity: protocol.NewIdentity(), Echo: echo}
		requests[node] = v.ask(r, node, protocol.ClaimScript, what, v.whileAlive(ctx), ended)
	}
	granted := v.decide(ctx, value, r, requests, ended)
	t = r.Tally
	for i, a := range t.Answers {
		if errors.Is(a.Err, errOverruled) { // out of time: no round waits for it until it answers again
			v.state[i].unresponsive = true
		}
	}
	if granted {
		won, granted = v.agree(ctx, t)
	}
	if !granted {
		v.giveBack(t, false)
		won = 0
	}
	v.lateClaims(r, ended, granted)
	if granted {
		v.kept = time.Now() // its term is announced
	} else {
		v.keepAfter(t)
	}
	v.lock.Token, v.claimed = won, t
	return won, t
}

// mustAsk reports whether too few nodes for a majority have answered the last request, and kept what they held since.
func (v *Voter) mustAsk() bool {
	reliable := 0
	for i, n := range v.state {
		bereft := time.Since(n.bereft) <= v.cfg.Lease/4+v.cfg.CallTimeout/4
		if !n.unresponsive && !n.parted && !bereft && v.nodes.All()[i].Suspected(v.cfg.Lease) == nil {
			reliable++
		}
	}
	return reliable < v.nodes.Majority()
}

// askFirst claims in vain, since it requests no token. A candidate whose requests pass while its answers are lost, or come
// too late, would else take the lock again and again without knowing it, and nobody would lead. One whose connections
// were lost with a node that has restarted with old data would take the lock of a leader that does not know it yet.
func (v *Voter) askFirst(ctx context.Context, echo string) Tally {
	v.newAttempt()
	r, ended := newRound(v.nodes, protocol.Free, true), make(chan *nodes.Request, v.nodes.Len())
	for node, to := range v.nodes.All() {
		what := protocol.Request{Value: v.lock.String(), Identity: protocol.NewIdentity(), Echo: echo}
		to.Send(v.ask(r, node, protocol.ClaimScript, what, v.whileAlive(ctx), ended))
	}
	r.await(ended, v.note)
	v.late(r, ended)
	v.keepAfter(r.Tally)
	return r.Tally
}

// keepAfter makes the nodes keep what they may lack, after a claim that was lost: an election that is paused may never
// have had a leader that announced a term.
func (v *Voter) keepAfter(t Tally) {
	if t.Count(protocol.Paused) > 0 || t.Answered() && v.missed.Load() != nil {
		v.Keep()
	}
}

// decide makes all nodes vote, and reports whether a majority granted the claim. Several nodes vote by
// way of redsync. The vote of a single node is the decision.
func (v *Voter) decide(ctx context.Context, value string, r *round, requests []*nodes.Request, ended <-chan *nodes.Request) bool {
	if len(requests) == 1 {
		v.nodes.All()[0].Send(requests[0])
		r.await(ended, v.note)
		return r.Answers[0].Status == protocol.Won
	}
	cast := make([]func(), len(requests))
	for node, n := range v.nodes.All() {
		cast[node] = func() { n.Send(requests[node]) }
	}
	return newRedlock(v.cfg.Keys.Lock, value, v.cfg.Lease, cast).claim(ctx, func(vote func(node int, won bool)) {
		r.await(ended, func(a *nodes.Request) {
			v.note(a)
			if a.Answer.Status == protocol.Abstains && r.Count(protocol.Abstains)+1 >= v.nodes.Majority() {
				r.patience = v.cfg.CallTimeout / 8 // an election can begin when all nodes are known to be new, also a far one
			}
			vote(a.Node, a.Answer.Status == protocol.Won)
		})
	})
}

func (v *Voter) newAttempt() {
	v.seq++
	v.alive.Store(v.seq)
	for range len(v.renewal.answers) { // late ones, which no term has taken
		v.Count(<-v.renewal.answers)
	}
	v.lock = protocol.LockValue{
		Candidate: v.cfg.Candidate, Incarnation: v.cfg.Incarnation, Seq: v.seq,
		Nodes: v.nodes.Len(), Lease: v.cfg.Lease, Since: time.Now(), Advertise: v.cfg.Advertise,
		Identities: v.Identities(),
	}
	for i := range v.state {
		n := &v.state[i]
		n.counter, n.gone = 0, false
	}
}

// whileAlive returns a function that reports whether a request of the newest attempt is still wanted.
// Requests to a hung node would otherwise pile up, and be sent one after the other, each for a whole
// call time-out, although their attempts are over.
func (v *Voter) whileAlive(ctx context.Context) func() bool {
	attempt := v.seq
	return func() bool { return v.alive.Load() == attempt && ctx.Err() == nil }
}

// agree returns the highest token that a node granted, once a majority has it. If too
// few nodes have it, a second round raises the lower tokens to it.
func (v *Voter) agree(ctx context.Context, t Tally) (token uint64, ok bool) {
	for _, a := range t.Answers {
		if a.Status == protocol.Won {
			token = max(token, a.Fence)
		}
	}
	r, ended := newRound(v.nodes, protocol.Raised, true), make(chan *nodes.Request, v.nodes.Len())
	for node, a := range t.Answers {
		if a.Status == protocol.Won && a.Fence == token {
			r.Answers[node] = protocol.Answer{Status: protocol.Raised, Fence: token}
		}
	}
	if r.Majority(protocol.Raised) {
		return token, true
	}
	for node, a := range r.Answers {
		if a.Status == protocol.Unknown {
			v.nodes.All()[node].Send(v.ask(r, node, protocol.RaiseScript, protocol.Request{Token: token}, v.whileAlive(ctx), ended))
		}
	}
	r.await(ended, v.note) // for all: the more nodes have the token, the more of them may fail
	v.late(r, ended)
	return token, r.Majority(protocol.Raised)
}

// Abandon gives back what the last attempt was granted, in the background and without notifying any
// candidate.
func (v *Voter) Abandon() { v.giveBack(v.claimed, true) }

// giveBack ends an attempt, and gives back what nodes granted, or may have. A node that refused holds
// nothing, and needs no request. overruled includes the nodes whose answers came too late.
func (v *Voter) giveBack(t Tally, overruled bool) {
	v.alive.Store(0)
	for node, a := range t.Answers {
		if mayHold(a) && (overruled || !errors.Is(a.Err, errOverruled)) {
			v.giveBackOn(node, v.seq)
		}
	}
}

// mayHold reports whether a node may hold the lock for a claim with that answer.
func mayHold(a protocol.Answer) bool {
	return a.Status == protocol.Won || a.Status == protocol.Unknown && !errors.Is(a.Err, nodes.ErrUnwanted)
}

// giveBackOn gives back what a node granted to an attempt. It takes no context: a cancelled one must not
// leave a lock behind.
func (v *Voter) giveBackOn(node int, attempt uint64) {
	ended := make(chan *nodes.Request, 1)
	v.release(node, attempt, protocol.Request{}, v.cfg.Lease, ended)
	v.Go(func() { <-ended })
}

// lateClaims takes the answers to a claim that arrive after its round. If the claim won, its term gets them among those to
// its renewals, up to maxUnderWay from a node: nobody reads that channel while no term runs. What a node has granted to an
// attempt that is over is given back only now: a release that arrived before its claim would leave the lock behind, for a
// lease.
func (v *Voter) lateClaims(r *round, ended <-chan *nodes.Request, won bool) {
	n := r.outstanding()
	if n == 0 {
		return
	}
	taken := make([]bool, len(r.pending)) // by node: the term gets its answer
	for node, k := range r.pending {
		if taken[node] = won && v.renewal.underWay[node]+k <= maxUnderWay; taken[node] {
			v.renewal.underWay[node] += k
		}
	}
	v.Go(func() {
		for range n {
			a := <-ended
			if mayHold(a.Answer) && v.alive.Load() != a.Seq {
				v.giveBackOn(a.Node, a.Seq)
			}
			if taken[a.Node] {
				v.renewal.answers <- a
			} else {
				v.noteLate(a)
			}
		}
	})
}

// Meet queries the nodes for their identities if too few are known for the next claim to name a
// majority of them: at the start of a process, and after a long rest. Two candidates whose claims
// name no identities could both win without noticing that their lists of nodes differ. Meet blocks
// for one round trip to a majority, of at most the call time-out; the first time in a process for at most three,
// but 2 s.
func (v *Voter) Meet(ctx context.Context) {
	if len(v.Identities().Known()) >= v.nodes.Majority() || !v.met.IsZero() && time.Since(v.met) < v.cfg.Lease*3/2 {
		return
	}
	limit := v.cfg.CallTimeout
	if v.met.IsZero() {
		// The time to make the first connection of a process, which with Sentinel or a Cluster takes many
		// round trips: the claim that follows finds it ready.
		limit = max(nodes.ConnectLimits*limit, nodes.StepTimeout)
	}
	v.met = time.Now()
	for node, a := range nodes.Ask(ctx, v.nodes, limit, nodes.MinExtraWait, func(ctx context.Context, n *nodes.Node) (string, error) {
		return identity(ctx, n, &v.cfg.Keys)
	}, nodes.Majority[string](v.nodes)) {
		if a.Err == nil {
			v.identify(node, a.Value)
		}
	}
}

func identity(ctx context.Context, n *nodes.Node, k *protocol.Keys) (string, error) {
	id := redis.NewStringCmd(ctx, "get", k.ID)
	if err := n.Do(ctx, id); err != nil {
		return "", err
	}
	return protocol.ParseIdentity(id.Val()), nil
}

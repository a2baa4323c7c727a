package quorum

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/conns"
)

// Seat is an elector's place in an election.
type Seat struct {
	Keys        Keys
	Candidate   string
	Incarnation string
	Advertise   string
	Lease       time.Duration
	CallTimeout time.Duration // bound of one request to one node
	// Heard, if set, is told how each request to a node ended, also of those
	// that a round did not wait for. It is called on many goroutines.
	Heard func(node int, took time.Duration, err error)
	// Unrecorded, if set, is told why a node's history did not take an event. It is
	// called on many goroutines.
	Unrecorded func(error)
}

// Voter casts the votes of one elector. Claim, Renew and Release belong to one
// goroutine at a time; Read and Announce are safe beside them.
type Voter struct {
	nodes *Nodes
	seat  Seat
	lanes []*lane
	pools pools

	seq   uint64
	alive atomic.Uint64 // the attempt that runs or serves its term; 0: none
	lock  Ballot        // of the newest attempt; with its token once that is agreed on
	mutex redlock       // of the newest attempt
	met   time.Time     // when the nodes were asked for their identities alone

	announcing sync.Mutex
	announced  []chan struct{} // by node: closed when the newest announcement has ended; nil: there was none

	background flights
}

// NewVoter takes a seat. It does no I/O.
func NewVoter(ns *Nodes, seat Seat) *Voter {
	v := &Voter{nodes: ns, seat: seat, pools: newPools(ns.Len()), announced: make([]chan struct{}, ns.Len())}
	for range ns.list {
		v.lanes = append(v.lanes, newLane())
	}
	return v
}

// Go runs fn on a goroutine that Settle waits for.
func (v *Voter) Go(fn func()) { v.background.Go(fn) }

// Settle waits until no request is under way any more, at most for d.
func (v *Voter) Settle(d time.Duration) { v.background.wait(d) }

// Claim is one attempt to win, with a fresh lock value. It blocks for one round
// trip to a majority (two when the nodes granted different tokens), at most for
// the call time-out. hint is the lowest token that the caller wants; markers
// are the notes of nodes that said New and that the caller found to be a
// bootstrap. won is the token, 0 when the claim was lost. What a lost attempt
// was granted is given back in the background.
func (v *Voter) Claim(ctx context.Context, hint uint64, markers []string) (won uint64, t Tally) {
	v.seq++
	seq := v.seq
	v.alive.Store(seq)
	v.lock = Ballot{
		Candidate: v.seat.Candidate, Incarnation: v.seat.Incarnation, Seq: seq,
		Nodes: v.nodes.Len(), Lease: v.seat.Lease, Advertise: v.seat.Advertise,
		Identities: v.identities(),
	}
	value := v.lock.String()
	for _, l := range v.lanes {
		l.forget()
	}
	r := newRound(v.nodes.Len(), v.nodes.Majority(), nil)
	r.ask = func(node int) Answer {
		marker := ""
		if node < len(markers) {
			marker = markers[node]
		}
		return v.callLate(ctx, node, claimScript, v.seat.Keys.forClaim(), v.whileAlive(seq,
			claimArgs(value, v.seat.Incarnation, seq, v.seat.Lease, hint, marker, v.seat.Keys, newIdentity())))
	}
	for i, l := range v.lanes {
		if l.isSilent() {
			r.ignore(i)
		}
	}
	v.mutex = newRedlock(v.pools, v.seat.Keys.Lock, value, v.seat.Lease)
	err := v.mutex.claim(ctx, r)
	r.settle()
	t = v.tally(r)
	for i, a := range t.Answers {
		if a.Status == Unknown && a.Err == nil { // out of patience: it is not waited for again until it answers
			v.lanes[i].silence()
		}
	}
	if err != nil {
		v.giveBack(t)
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

// agree finds the token that a majority granted. Where the values differ, the
// lower ones are raised to the highest, in a second round.
func (v *Voter) agree(ctx context.Context, t Tally) (token uint64, ok bool) {
	for _, a := range t.Answers {
		if a.Status == Won {
			token = max(token, a.Fence)
		}
	}
	votes, r := 0, (*round)(nil)
	for _, a := range t.Answers {
		if a.Status == Won && a.Fence == token {
			votes++
		}
	}
	if votes >= v.nodes.Majority() {
		return token, true
	}
	seq := v.seq
	r = newRound(v.nodes.Len(), v.nodes.Majority(), func(node int) Answer {
		if a := t.Answers[node]; a.Status == Won && a.Fence == token {
			return Answer{Status: Raised, Fence: token}
		}
		return v.callLate(ctx, node, raiseScript, v.seat.Keys.forRaise(), v.whileAlive(seq, raiseArgs(v.seat.Incarnation, seq, token)))
	})
	return token, v.all(r).Majority(Raised)
}

// all asks every node and waits until each has answered or the round is over.
func (v *Voter) all(r *round) Tally {
	var wg sync.WaitGroup
	for i := range r.answers {
		wg.Go(func() { r.vote(i) })
	}
	wg.Wait()
	return v.tally(r)
}

func (v *Voter) tally(r *round) Tally { return v.nodes.Tally(r.now(), time.Since(r.started)) }

// identities are what this voter's lock names.
func (v *Voter) identities() Identities {
	all := make([]string, len(v.lanes))
	for i, l := range v.lanes {
		all[i] = l.known(v.seat.Lease)
	}
	return IdentitiesOf(all)
}

// Renew prolongs the term that the last Claim won, in one round trip, at most
// for the call time-out. Nothing is sent after left, the time to the term's
// deadline; what was sent is not cancelled when a majority has answered. fit is
// asked when a node's turn comes, on many goroutines: a request that had to wait
// behind hung ones must not go out on a verdict from before that, or for a term
// that has ended since.
func (v *Voter) Renew(left time.Duration, token uint64, heir Heir, fit func() bool) Tally {
	v.lock.Identities = v.identities()
	seq, value := v.seq, v.lock.String()
	r := newRound(v.nodes.Len(), v.nodes.Majority(), nil)
	r.ask = func(node int) Answer {
		l := v.lanes[node]
		ctx, cancel := context.WithTimeout(context.Background(), left)
		defer cancel()
		return v.callLate(ctx, node, renewScript, v.seat.Keys.forRenew(), func() []any {
			if !fit() {
				r.end() // nobody waits for the others, a hung one perhaps: a release may be next
				return nil
			}
			return renewArgs(value, v.seat.Incarnation, seq, v.seat.Lease, token, l.heard(), heir, newIdentity())
		})
	}
	v.mutex.renew(r)
	return v.tally(r)
}

// Regainable tells whether a node has answered a renewal, also after its round was over,
// that it is free and that its counter is beyond the term's. It takes the next renewal
// if nobody claims it before that.
func (v *Voter) Regainable() bool {
	for _, l := range v.lanes {
		l.mu.Lock()
		gone := l.gone
		l.mu.Unlock()
		if gone {
			return true
		}
	}
	return false
}

// Abandon gives back, in the background and without a report, whatever the last
// attempt was granted.
func (v *Voter) Abandon() {
	v.alive.Store(0)
	for i := range v.lanes {
		v.release(i, v.seq)
	}
}

// giveBack is Abandon for the nodes of a failed claim that granted it, or may
// have: a definite loss left nothing behind, and costs no request.
func (v *Voter) giveBack(t Tally) {
	v.alive.Store(0)
	for i, a := range t.Answers {
		if a.Status == Won || a.Status == Unknown {
			v.release(i, v.seq)
		}
	}
}

// release runs the silent release behind what is in flight to that node. It
// outlives the caller's context: a dead context must not leave a lock behind.
func (v *Voter) release(node int, seq uint64) {
	l := v.lanes[node]
	if !l.abandon(seq) {
		return
	}
	v.background.Go(func() {
		// After a lease the lock is gone by itself.
		ctx, cancel := context.WithTimeout(context.Background(), v.seat.Lease)
		defer cancel()
		done := l.run(ctx, v.seat.CallTimeout, nil, func(ctx context.Context) {
			k := v.seat.Keys
			_ = releaseScript.Run(ctx, v.nodes.list[node].rdb, k.forRelease(),
				releaseArgs(v.seat.Incarnation, l.takeAbandoned(), v.seat.Lease, 0, k, "", Heir{}, 0)...).Err()
		})
		if !done {
			l.takeAbandoned()
		}
	})
}

// whileAlive are the arguments of a request that is not sent any more once its attempt
// is over: behind a hung node they would pile up, and be sent one after the other, each
// for a whole call time-out, when nobody wants them any more.
func (v *Voter) whileAlive(seq uint64, args []any) func() []any {
	return func() []any {
		if v.alive.Load() != seq {
			return nil
		}
		return args
	}
}

// callLate runs a script on one node, in that node's order, with arguments made when
// its turn comes; nil means that nothing is sent any more.
func (v *Voter) callLate(ctx context.Context, node int, s *redis.Script, keys []string, args func() []any) Answer {
	v.background.begin()
	defer v.background.end()
	l := v.lanes[node]
	a := Answer{Status: Unknown, Err: context.DeadlineExceeded, Waiters: -1, Crowd: -1}
	var took time.Duration
	dropped := false
	l.run(ctx, v.seat.CallTimeout, func() bool { return args() != nil }, func(ctx context.Context) {
		with := args()
		if dropped = with == nil; dropped {
			return
		}
		sent := time.Now()
		a = parseAnswer(s.Run(ctx, v.nodes.list[node].rdb, keys, with...).Result())
		took = time.Since(sent)
		dropped = errors.Is(a.Err, conns.ErrUnwanted)
		a.Settled = l.meet(a.ID, sent, v.seat.Lease)
	})
	if dropped {
		return a
	}
	l.hear(a)
	if v.seat.Heard != nil && ctx.Err() == nil {
		v.seat.Heard(node, took, v.nodes.nodeError(node, a.Err))
	}
	return a
}

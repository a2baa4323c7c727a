package quorum

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// VoterConfig is what a Voter needs to know of its elector.
type VoterConfig struct {
	Keys        protocol.Keys
	Candidate   string
	Incarnation string
	Version     string        // semantic: no node elects it once a newer one has led; empty: any may lead
	Advertise   func() string // where this candidate can be reached, at each claim and renewal
	Lease       time.Duration
	CallTimeout time.Duration // bound of one request to one node
	// RequestEnded, if set, is called with the outcome of each request to a node, also of those
	// that a round did not wait for. It is called on many goroutines.
	RequestEnded func(node int, took time.Duration, err error)
	// Unrecorded, if set, is called with the reason when a node's history did not take an
	// event, on many goroutines.
	Unrecorded func(error)
}

// Voter casts the votes of one elector. It belongs to one goroutine at a time (the state machine's, or that of a renewal or a
// claim that is due while the state machine waits), but for Go, WaitIdle, Announce, AwaitRecorded and Identities, which are
// safe for concurrent use.
type Voter struct {
	nodes  *Nodes
	cfg    VoterConfig
	queues []*nodeQueue

	seq   uint64
	alive atomic.Uint64      // the attempt that runs or serves its term; 0: none
	lock  protocol.LockValue // of the newest attempt; with its token once that is agreed on
	named []string           // the identities that it names, by node; nil: not looked at
	term  renewed            // of the newest renewal
	met   time.Time          // when the nodes were queried for their identities alone
	// introduced: a majority has shown whether the groups of shards exist that the election's name is one of.
	introduced bool

	recorders []*recorder // by node

	onlyHeld protocol.OnlyHeld // of its releases; it never changes

	background flights
}

// renewed is what the renewals of a term have in common while its lock value stays the same: a process with ten thousand
// elections does little but renew.
type renewed struct {
	token uint64
	heir  protocol.Heir

	keys []string
	args []any // but for the counter and the identity, which each request has of its own; nil: to be made
}

// NewVoter does no I/O.
func NewVoter(ns *Nodes, cfg VoterConfig) *Voter {
	v := &Voter{nodes: ns, cfg: cfg}
	for i := range ns.list {
		v.queues = append(v.queues, newNodeQueue())
		v.recorders = append(v.recorders, &recorder{
			sender: ns.list[i].sender, keys: &v.cfg.Keys, limit: cfg.CallTimeout, background: &v.background,
			refused: func(err error) {
				if cfg.Unrecorded != nil {
					cfg.Unrecorded(ns.NodeError(i, err))
				}
			},
		})
	}
	return v
}

// Go runs fn on a goroutine that WaitIdle waits for.
func (v *Voter) Go(fn func()) { v.background.Go(fn) }

// WaitIdle waits until no request is under way any more, at most for d.
func (v *Voter) WaitIdle(d time.Duration) { v.background.wait(d) }

func (v *Voter) tally(r *round) Tally { return v.nodes.Tally(r.now(), time.Since(r.started)) }

// identities are what this voter's lock names.
func (v *Voter) identities() protocol.Identities {
	all := make([]string, len(v.queues))
	for i, q := range v.queues {
		all[i] = q.known(time.Now(), v.cfg.Lease)
	}
	return protocol.IdentitiesOf(all)
}

// Attempt is the newest one. It belongs to the goroutine of Claim.
func (v *Voter) Attempt() uint64 { return v.seq }

// Advertised is the address in the newest attempt's lock, as the last Claim or renewal sent
// it. It belongs to the goroutine of those.
func (v *Voter) Advertised() string { return v.lock.Advertise }

// Regainable reports whether a node has answered a renewal, also after its round was over,
// that it is free and that its counter is beyond the term's. It takes the next renewal
// if no candidate claims it before that.
func (v *Voter) Regainable() bool {
	for _, q := range v.queues {
		q.mu.Lock()
		gone := q.gone
		q.mu.Unlock()
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
	for i := range v.queues {
		v.release(i, v.seq)
	}
}

// release runs the release that notifies no candidate behind what is in flight to that node. It
// outlives the caller's context: a dead context must not leave a lock behind.
func (v *Voter) release(node int, seq uint64) {
	q := v.queues[node]
	if !q.abandon(seq) {
		return
	}
	v.background.Go(func() {
		// After a lease the lock has expired.
		ctx, cancel := context.WithTimeout(context.Background(), v.cfg.Lease)
		defer cancel()
		done := q.run(ctx, v.cfg.CallTimeout, func(ctx context.Context) {
			k := v.cfg.Keys
			args := protocol.ReleaseArgs(v.cfg.Incarnation, q.takeAbandoned(), v.cfg.Lease, 0, k, "", protocol.Heir{}, 0, false)
			v.nodes.list[node].sender.Send(protocol.ReleaseScript, v.cfg.CallTimeout,
				transport.NewRequest(ctx, k.ForRelease(), func() []any { return args }))
		})
		if !done {
			q.takeAbandoned()
		}
	})
}

// ignoreUnresponsive has a round that wants the answers of all nodes not wait for those that did not answer last.
func (v *Voter) ignoreUnresponsive(r *round) {
	for i, q := range v.queues {
		if q.isUnresponsive() {
			r.ignore(i)
		}
	}
}

// whileAlive are the arguments of a request that is not sent any more once its attempt
// is over: behind a hung node they would pile up, and be sent one after the other, each
// for a whole call time-out, when they are not wanted any more.
func (v *Voter) whileAlive(seq uint64, args []any) func() []any {
	return func() []any {
		if v.alive.Load() != seq {
			return nil
		}
		return args
	}
}

// callLate runs a script on one node, in that node's order, with arguments made when
// it is sent; nil means that nothing is sent any more.
func (v *Voter) callLate(ctx context.Context, node int, s protocol.ElectionScript, keys []string, args func() []any) protocol.Answer {
	v.background.begin()
	defer v.background.end()
	q, o := v.queues[node], transport.NotSent()
	q.run(ctx, v.cfg.CallTimeout, func(ctx context.Context) {
		o = v.nodes.list[node].sender.Send(s, v.cfg.CallTimeout, transport.NewRequest(ctx, keys, args))
		o.Answer.Settled = q.meet(o.Answer.ID, o.Sent, v.cfg.Lease)
	})
	return v.answered(node, o, ctx.Err() == nil)
}

// answered takes how a request ended. One whose time was over is not reported.
func (v *Voter) answered(node int, o transport.Outcome, inTime bool) protocol.Answer {
	if o.Dropped {
		return o.Answer
	}
	v.queues[node].note(o.Answer)
	o.Answer.Err = v.cfg.Keys.Needs(o.Answer.Err)
	if o.Answer.Status != protocol.Unknown {
		v.recorders[node].again()
	}
	if v.cfg.RequestEnded != nil && inTime {
		v.cfg.RequestEnded(node, o.Took, v.nodes.NodeError(node, o.Answer.Err))
	}
	return o.Answer
}

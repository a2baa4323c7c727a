package quorum

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// VoterConfig configures a Voter.
type VoterConfig struct {
	Keys        protocol.Keys
	Candidate   string
	Incarnation string
	Advertise   func() string // this candidate's address; called for each claim and renewal
	Lease       time.Duration
	CallTimeout time.Duration // bounds one request to one node
	// RequestEnded, if set, is called with the outcome of each request to a node, including those
	// that a round did not wait for. It is called on many goroutines.
	RequestEnded func(node int, took time.Duration, err error)
	// Unrecorded, if set, is called with the reason when a node's history did not take an
	// event. It is called on many goroutines.
	Unrecorded func(error)
}

// Voter claims, renews, releases and announces for one elector. It belongs to one goroutine at a
// time: the state machine's, or that of a due renewal or claim while the state machine waits. Only
// Go, WaitIdle, Announce, AwaitRecorded and Identities are safe for concurrent use.
type Voter struct {
	nodes  *Nodes
	cfg    VoterConfig
	queues []*nodeQueue

	seq   uint64
	alive atomic.Uint64      // the attempt that runs or serves its term; 0: none
	lock  protocol.LockValue // of the newest attempt; includes its token once that is agreed on
	named []string           // the identities in lock, by node; nil: not set yet
	term  renewed            // of the newest renewal
	met   time.Time          // when Meet last queried the nodes for their identities
	// introduced: a majority has shown which of the groups that Meet was given exist.
	introduced bool

	recorders []*recorder // by node

	onlyHeld protocol.OnlyIfHeld // for its releases; never changes

	background flights
}

// renewed holds what the renewals of a term share while its lock value stays the same. It saves
// allocations: a process with ten thousand elections does little but renew.
type renewed struct {
	token uint64
	heir  protocol.Heir

	keys []string
	args []any // except the counter and the identities, which differ by node; nil: must be made
}

// NewVoter returns a Voter for these nodes. It does no I/O.
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

// WaitIdle blocks until no request is under way, for at most d.
func (v *Voter) WaitIdle(d time.Duration) { v.background.wait(d) }

func (v *Voter) tally(r *round) Tally { return v.nodes.Tally(r.now(), time.Since(r.started)) }

// identities returns the identities of the nodes, for the lock value.
func (v *Voter) identities() protocol.Identities {
	all := make([]string, len(v.queues))
	for i, q := range v.queues {
		all[i] = q.known(time.Now(), v.cfg.Lease)
	}
	return protocol.IdentitiesOf(all)
}

// Attempt returns the number of the newest attempt. Only the goroutine of Claim may call it.
func (v *Voter) Attempt() uint64 { return v.seq }

// Advertised returns the address in the lock value that the last Claim or renewal sent. Only
// the goroutine of those may call it.
func (v *Voter) Advertised() string { return v.lock.Advertise }

// Regainable reports whether a node has answered the last renewal, even after the round was
// over, that its lock is free and its counter higher than the term's. Such a node accepts the
// next renewal if no candidate claims it before that.
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

// Abandon gives back whatever the last attempt was granted, in the background and
// without notifying any candidate.
func (v *Voter) Abandon() {
	v.alive.Store(0)
	for i := range v.queues {
		v.release(i, v.seq)
	}
}

// release gives back a node's lock without notifying any candidate, after the requests that are
// under way to that node. It takes no context: a cancelled one must not leave a lock behind.
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
				transport.NewRequest(ctx, k.ReleaseKeys(), func() []any { return args }))
		})
		if !done {
			q.takeAbandoned()
		}
	})
}

// ignoreUnresponsive makes a round that wants the answers of all nodes not wait for those that did not
// answer their last request.
func (v *Voter) ignoreUnresponsive(r *round) {
	for i, q := range v.queues {
		if q.isUnresponsive() {
			r.ignore(i)
		}
	}
}

// whileAlive returns a function that makes the arguments of a request, or nil once the attempt
// is over. Requests to a hung node would otherwise pile up, and be sent one after the other,
// each for a whole call time-out, although no longer wanted.
func (v *Voter) whileAlive(seq uint64, args []any) func() []any {
	return func() []any {
		if v.alive.Load() != seq {
			return nil
		}
		return args
	}
}

// callLate runs a script on one node, after the earlier requests to that node. args makes
// the arguments as late as possible, when the request is sent; if it returns nil, nothing
// is sent.
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

// answered notes the outcome of a request and returns the answer. RequestEnded is called only for a
// request that ended in time.
func (v *Voter) answered(node int, o transport.Outcome, inTime bool) protocol.Answer {
	if o.Dropped {
		return o.Answer
	}
	v.queues[node].note(o.Answer)
	o.Answer.Err = v.cfg.Keys.ExplainDenied(o.Answer.Err)
	if o.Answer.Status != protocol.Unknown {
		v.recorders[node].again()
	}
	if v.cfg.RequestEnded != nil && inTime {
		v.cfg.RequestEnded(node, o.Took, v.nodes.NodeError(node, o.Answer.Err))
	}
	return o.Answer
}

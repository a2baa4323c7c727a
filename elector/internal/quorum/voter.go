package quorum

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
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
	// that a round did not wait for. It is called on several goroutines.
	RequestEnded func(node int, took time.Duration, err error)
	// Unrecorded, if set, is called with the reason when a node's history did not take an
	// event. It is called on several goroutines.
	Unrecorded func(error)
	// Echo, if set, returns the channel to which the nodes publish when a claim is lost, or the lease is
	// renewed; "": to none. It is called for each claim and renewal.
	Echo func() string
}

// Voter claims, renews, releases and announces for one elector. It belongs to the state machine's
// goroutine. Only Go, WaitIdle, Announce, AwaitRecorded and Identities are safe for concurrent use.
type Voter struct {
	nodes *Nodes
	cfg   VoterConfig
	state []nodeState // by node

	seq     uint64
	alive   atomic.Uint64      // the attempt that runs or serves its term; 0: none
	newest  atomic.Uint64      // numbers the renewals
	over    atomic.Uint64      // the newest renewal that is over
	lock    protocol.LockValue // of the newest attempt; includes its token once that is agreed on
	claimed Tally              // how the nodes answered its claim
	renewal renewal            // the newest one
	kept    time.Time          // when Keep last announced
	met     time.Time          // when Meet last queried the nodes for their identities
	// introduced: a majority has shown which of the groups that Meet was given exist.
	introduced bool

	identities identities
	recorders  []*recorder // by node

	onlyHeld bool // its releases change nothing on a node that does not hold the lock; never changes

	background flights
}

// NewVoter returns a Voter for these nodes. It does no I/O.
func NewVoter(ns *Nodes, cfg VoterConfig) *Voter {
	n := ns.Len()
	v := &Voter{nodes: ns, cfg: cfg, state: make([]nodeState, n), identities: identities{lease: cfg.Lease, all: make([]identity, n)}}
	v.renewal = renewal{answers: make(chan *request, maxUnderWay*n), underWay: make([]int, n)}
	for i, node := range ns.list {
		_, cluster := node.rdb.(*redis.ClusterClient)
		v.recorders = append(v.recorders, &recorder{
			apart: cluster, node: node, keys: &v.cfg.Keys, limit: cfg.CallTimeout, background: &v.background,
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

// WaitIdle blocks until no report, no release and no late claim is under way, for at most d.
func (v *Voter) WaitIdle(d time.Duration) { v.background.wait(d) }

func (v *Voter) tally(r *round) Tally {
	return v.nodes.Tally(slices.Clone(r.answers), time.Since(r.started))
}

// Identities returns the identities of the nodes that have answered lately.
func (v *Voter) Identities() protocol.Identities { return protocol.IdentitiesOf(v.identities.known()) }

// Attempt returns the number of the newest attempt.
func (v *Voter) Attempt() uint64 { return v.seq }

// Advertised returns the address in the lock value that the last Claim or renewal sent.
func (v *Voter) Advertised() string { return v.lock.Advertise }

// Regainable reports whether a node has answered the last renewal, even after the round was
// over, that its lock is free and its counter higher than the term's. Such a node accepts the
// next renewal if no candidate claims it before that.
func (v *Voter) Regainable() bool {
	return slices.ContainsFunc(v.state, func(n nodeState) bool { return n.gone })
}

// Rival is an attempt of another candidate that holds the lock of a node while this voter
// serves a term.
type Rival struct {
	Node   string
	Holder string        // the lock value
	For    time.Duration // from the first to the last time that it was met there
}

// Rivals returns the attempts of other candidates that held nodes against the newest term
// at the last answers, including answers that came after their round was over.
func (v *Voter) Rivals() []Rival {
	var all []Rival
	for i, n := range v.state {
		if r := n.rival; r != nil {
			all = append(all, Rival{Node: v.nodes.list[i].Name, Holder: r.holder, For: r.last.Sub(r.since)})
		}
	}
	return all
}

// newRound begins a round, to be sent with ask.
func (v *Voter) newRound(yes protocol.Status, every bool) *round {
	return newRound(v.nodes.Len(), yes, every)
}

// request makes a request of the newest attempt to one node. The outcome comes on ended.
func (v *Voter) request(node int, s protocol.ElectionScript, what protocol.Request, wanted func() bool, ended chan<- *request) *request {
	what.Keys, what.Incarnation, what.Seq, what.Lease = &v.cfg.Keys, v.cfg.Incarnation, v.seq, v.cfg.Lease.Milliseconds()
	return &request{Request: what, script: s, limit: v.cfg.CallTimeout, node: node, wanted: wanted, ended: ended}
}

// ask makes a request of a round to one node.
func (v *Voter) ask(r *round, node int, s protocol.ElectionScript, what protocol.Request, wanted func() bool, ended chan<- *request) *request {
	r.sent[node]++
	q := v.request(node, s, what, wanted, ended)
	q.round = r
	return q
}

// note records what the outcome of a request shows of its node.
func (v *Voter) note(r *request) {
	if r.sent.IsZero() {
		return
	}
	v.identities.meet(r.node, r.answer.ID, r.sent)
	n := &v.state[r.node]
	n.answeredWith(r.answer.ID)
	n.note(r.answer)
	v.noteLate(r)
}

// noteLate counts a request, also one whose outcome the voter's goroutine did not wait for.
func (v *Voter) noteLate(r *request) {
	if r.sent.IsZero() {
		return
	}
	r.answer.Err = v.cfg.Keys.ExplainDenied(r.answer.Err)
	if r.answer.Status != protocol.Unknown {
		v.recorders[r.node].again()
	}
	if v.cfg.RequestEnded != nil {
		v.cfg.RequestEnded(r.node, r.took, v.nodes.NodeError(r.node, r.answer.Err))
	}
}

// late takes the outcomes that a round did not wait for, in the background.
func (v *Voter) late(r *round, ended <-chan *request) {
	if n := r.outstanding(); n > 0 {
		v.Go(func() {
			for range n {
				v.noteLate(<-ended)
			}
		})
	}
}

package quorum

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// StartRenewal prolongs the term that the last Claim won, in one round trip, at most
// for the call time-out. Nothing is sent after left, the time to the term's
// deadline; what was sent is not cancelled when a majority has answered. fit is
// asked when a node's turn comes, on many goroutines: a request that had to wait
// behind hung ones must not go out on a verdict from before that, or for a term
// that has ended since.
//
// It does not block. ended gets the outcome, once, on the goroutine of the call, which serves other elections too: it must neither block nor keep the answers.
func (v *Voter) StartRenewal(left time.Duration, token uint64, heir protocol.Heir, fit func() bool, ended func(Tally)) {
	began := time.Now()
	v.nameNodes(began)
	if at := v.cfg.Advertise(); at != v.lock.Advertise {
		v.lock.Advertise, v.term.args = at, nil
	}
	if of := &v.term; of.args == nil || of.token != token || of.heir != heir {
		v.term = renewed{
			token: token, heir: heir, keys: v.cfg.Keys.ForRenew(),
			args: protocol.RenewArgs(v.lock.String(), v.cfg.Incarnation, v.seq, v.cfg.Lease, token, 0, heir, "", v.cfg.Version, ""),
		}
	}
	v.nodes.start(broadcast{broadcastKind: &renewals, v: v, keys: v.term.keys, same: v.term.args, left: left, fit: fit}, began, ended)
}

// renewals have the counter and the identity of their own that the node has shown.
var renewals = broadcastKind{script: protocol.RenewScript, yes: protocol.Renewed, usual: protocol.Renewed, fill: func(p *posted, args []any) {
	s := p.v.queues[p.node].show()
	args[protocol.RenewCounter], args[protocol.RenewShown], args[protocol.RenewIdentity] = s.counter, s.identity, s.offer
}}

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
		v.lock.Identities, v.term.args = protocol.IdentitiesOf(v.named), nil
	}
}

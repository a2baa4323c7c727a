package quorum

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// StartRenewal prolongs the term that the last Claim won, in one round trip of at most
// the call time-out. Nothing is sent after left, the time to the term's deadline; a
// request that was sent is not cancelled when a majority has answered. fit is called
// when a request is sent, on many goroutines: a request that had to wait behind others
// to a hung node must not be sent on an earlier verdict of the probes, or for a term
// that has ended since.
//
// It does not block. ended gets the outcome, once, on a goroutine that serves other elections
// too: it must neither block nor keep the answers.
func (v *Voter) StartRenewal(left time.Duration, token uint64, heir protocol.Heir, fit func() bool, ended func(Tally)) {
	began := time.Now()
	v.nameNodes(began)
	if at := v.cfg.Advertise(); at != v.lock.Advertise {
		v.lock.Advertise, v.term.args = at, nil
	}
	if of := &v.term; of.args == nil || of.token != token || of.heir != heir {
		v.term = renewed{
			token: token, heir: heir, keys: v.cfg.Keys.RenewKeys(),
			args: protocol.RenewArgs(v.lock.String(), v.cfg.Incarnation, v.seq, v.cfg.Lease, token, 0, heir, "", ""),
		}
	}
	v.nodes.start(broadcast{broadcastKind: &renewals, v: v, keys: v.term.keys, same: v.term.args, left: left, fit: fit}, began, ended)
}

// renewals is the kind of the broadcasts of StartRenewal. The counter and the identities differ by node.
var renewals = broadcastKind{script: protocol.RenewScript, yes: protocol.Renewed, usual: protocol.Renewed, fill: func(p *posted, args []any) {
	s := p.v.queues[p.node].show()
	args[protocol.RenewCounter], args[protocol.RenewShown], args[protocol.RenewIdentity] = s.counter, s.identity, s.offer
}}

// nameNodes sets the identities in the lock value to those that nodes have confirmed lately.
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

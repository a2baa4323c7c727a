package quorum

import (
	"errors"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Announce makes every node publish an event, with head before it (protocol.Message), and append it to its history. It
// does not wait for the nodes: an announcement must never delay a renewal. If no majority answers, the event is recorded
// with the next announcement, of which Keep makes one as soon as the nodes answer again: without that, a term that ended by
// an outage of Redis would seem to have vanished, as if the process had been killed. Only the newest such event is kept.
func (v *Voter) Announce(head string, text []byte) {
	what, name := protocol.Request{Head: head, Event: string(text)}, protocol.Request{Name: v.cfg.Keys.Election}
	var missed event
	if kept := v.missed.Swap(nil); kept != nil {
		missed, what.Missed = *kept, kept.text
	}
	if what.Event != "" {
		v.events++
		missed = event{v.events, what.Event}
	}
	n, until := v.nodes.Len(), time.Now().Add(nodes.ConnectLimits*v.cfg.CallTimeout)
	wanted := func() bool { return time.Now().Before(until) }
	events, names := make(chan *nodes.Request, n), make(chan *nodes.Request, n)
	for node, to := range v.nodes.All() {
		recording, naming := v.request(node, protocol.AnnounceScript, what, wanted, events), v.request(node, protocol.AnnounceScript, name, wanted, names)
		naming.Keys = &protocol.Keys{History: v.cfg.Keys.Names}
		to.Send(recording, naming)
	}
	v.Go(func() {
		if !v.recorded(events) && missed.text != "" {
			v.keepMissed(missed)
		}
		for range n {
			<-names
		}
	})
}

// event is an event of this candidate. A later one has a higher number.
type event struct {
	number uint64
	text   string
}

// keepMissed keeps an event for the next announcement, unless a newer one is kept: a release may lapse when the next term
// has begun.
func (v *Voter) keepMissed(missed event) {
	for kept := v.missed.Load(); kept == nil || kept.number < missed.number; kept = v.missed.Load() {
		if v.missed.CompareAndSwap(kept, &missed) {
			return
		}
	}
}

// recorded reports whether a majority of the nodes has recorded an event, or refused to, which only an operator can change.
func (v *Voter) recorded(ended <-chan *nodes.Request) bool {
	done := 0
	for range v.nodes.Len() {
		r := <-ended
		err := v.denial(r.Answer.Err)
		if err != nil && v.cfg.Unrecorded != nil {
			v.cfg.Unrecorded(v.nodes.NodeError(r.Node, err))
		}
		if err != nil || r.Answer.Status == protocol.Recorded {
			done++
		}
	}
	return done >= v.nodes.Majority()
}

// denial returns why a node refuses to record, so that another attempt would be useless for now;
// nil: it does not refuse. If the user may run scripts but not access the history's key, the node
// refuses the whole call.
func (v *Voter) denial(err error) error {
	if !errors.As(err, new(rediserr.Refusal)) && !rediserr.Denied(err) {
		return nil
	}
	return rediserr.CandidateNeeds(err, v.cfg.Keys.Prefix())
}

// keepEvery is how often a candidate makes the nodes keep the name and the history of its election: its
// leader may announce nothing for months.
const keepEvery = 24 * time.Hour

// Keep makes the nodes keep the name and the history of the election, as an event does, unless it has
// done so lately and no event was missed. It does not wait for the requests.
func (v *Voter) Keep() {
	if now := time.Now(); v.missed.Load() != nil || v.kept.IsZero() || now.Sub(v.kept) >= keepEvery {
		v.kept = now
		v.Announce("", nil)
	}
}

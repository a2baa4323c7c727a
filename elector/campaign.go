package elector

import (
	"context"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/standby"
)

// known is what this candidate remembers of the election.
type known struct {
	highest uint64      // the highest counter or token seen on any node
	begun   lease.Stamp // when this Run or Campaign began
	traced  bool        // a node has shown a trace of an earlier election, or this candidate has won one
	asked   lease.Stamp // when the nodes answered last, to a claim or a look; zero: never
	heard   bool        // a majority has answered before
	twin    bool        // another process with our id was reported
	waits   bool        // said that nodes abstain

	differs     string      // the attempt that was last seen to vote with other nodes
	differsFrom lease.Stamp // when it was first seen
}

// alive takes what a tally tells about tokens. A counter above zero, a holder or a
// pause is a trace of the election; a node that has lost everything has none.
func (k *known) alive(t quorum.Tally) {
	for _, a := range t.Answers {
		k.highest = max(k.highest, a.Fence)
		k.traced = k.traced || a.Fence > 0 || a.Status == quorum.Held || a.Status == quorum.Paused || a.Status == quorum.Kept
	}
}

// campaign blocks until this candidate has won a term, or ctx ends, or there is
// permanent trouble before anything ever worked.
func (e *Elector) campaign(ctx context.Context) (*Term, error) {
	e.become(RoleFollowing, nil)
	w := e.standBy()
	defer w.Close()
	for ctx.Err() == nil {
		if e.candidate != nil && !e.candidate.Status().Healthy {
			w.LeaveFrontRow() // its place is for one that can claim when a leader releases
		}
		if !e.awaitHealth(ctx) {
			break
		}
		e.voter.Meet(ctx)
		w.Claiming()
		sent := e.clock.Now()
		token, tally := e.claim(ctx)
		if token != 0 {
			grant := lease.NewGrant(e.clock, e.timing, sent)
			if tally.Count(quorum.Same) > 0 {
				e.voter.Abandon()
				if err := e.assess(tally); err != nil {
					return nil, err
				}
			}
			if no := e.refusal(tally); no.refuses() || ctx.Err() != nil || !grant.Valid() {
				e.voter.Abandon()
				e.setTrouble(no)
				w.Lost(tally)
				if no.err != nil {
					w.Refused(tally)
				}
				w.Wait(ctx, e.candidateChanged(), e.nudged)
				continue
			}
			e.setTrouble(trouble{})
			e.sayPause(tally)
			return newTerm(ctx, e, token, grant), nil
		}
		if err := e.assess(tally); err != nil {
			return nil, err
		}
		w.Lost(tally)
		w.Wait(ctx, e.candidateChanged(), e.nudged)
	}
	return nil, ctx.Err()
}

// standBy makes what waits for the time to claim.
func (e *Elector) standBy() *standby.Waiter {
	return standby.New(standby.Config{
		Settings: standby.Settings{
			Incarnation: e.incarnation, Nodes: e.quorum.Size(), Lease: e.cfg.Lease,
			RetryEvery: e.timing.RetryEvery(), ReservedFor: e.keepFor(),
		},
		Bus: e.quorum.bus, Keys: e.keys, ParseEvent: e.wakeMessageIn, NotSubscribed: e.sayDeaf,
	})
}

// wakeMessageIn reads an event as those on standby need it.
func (e *Elector) wakeMessageIn(payload string) (m quorum.WakeMessage, ok bool) {
	ev, err := ParseEvent(payload)
	if err != nil || ev.Election != e.cfg.Election {
		return m, false
	}
	switch ev.Kind {
	case EventElected:
		return quorum.WakeMessage{Elected: true, Token: ev.Token}, true
	case EventReleased:
		m.Token = ev.Token
		if ev.Next != "" {
			m.First = quorum.Reservation(ev.Next)
		}
		return m, true
	default:
		return m, false
	}
}

// awaitHealth blocks while the candidate's probe fails: the unhealthy don't
// run. It returns false when ctx ended first.
func (e *Elector) awaitHealth(ctx context.Context) bool {
	if e.candidate == nil {
		return true
	}
	said := false
	look := e.lookout()
	defer look.close()
	for {
		changed := e.candidate.Changed()
		st := e.candidate.Status()
		if st.Healthy {
			if said {
				e.log.Info("healthy again")
				e.feed.publish(e.plain(EventHealthy, ""))
			}
			return true
		}
		// Before the first answer there is nothing to say.
		if !said && st.LastErr != nil {
			said = true
			e.log.Warn("unhealthy, not campaigning", "reason", st.Err)
			e.feed.publish(e.plain(EventUnhealthy, st.Err.Error()))
		}
		again := time.NewTimer(e.timing.RenewEvery)
		select {
		case <-ctx.Done():
			again.Stop()
			return false
		case <-changed:
		case <-again.C: // a first failure does not change Healthy
		case <-look.due.C:
			look.start()
		case views := <-look.views:
			look.take(views)
		}
		again.Stop()
	}
}

func (e *Elector) plain(k EventKind, detail string) Event {
	return Event{
		Version: eventVersion, Kind: k, Election: e.cfg.Election, Candidate: e.cfg.ID, Incarnation: e.incarnation,
		Advertise: e.cfg.Advertise, Detail: detail, Time: time.Now().Round(0),
	}
}

// claim tries once. When all nodes say that they are new, and this candidate may
// believe that no leader sits, it is a bootstrap: it claims again, and names the
// markers it found, so that a node which forgot only afterwards still abstains.
func (e *Elector) claim(ctx context.Context) (uint64, quorum.Tally) {
	hint := max(e.known.highest+1, uint64(max(0, time.Now().UnixMilli())))
	token, tally := e.voter.Claim(ctx, hint, nil)
	e.known.alive(tally)
	if token == 0 && tally.Count(quorum.New) == len(tally.Answers) && e.bootstraps() {
		markers := make([]string, len(tally.Answers))
		for i, a := range tally.Answers {
			markers[i] = a.Note
		}
		e.log.Info("starting a new election")
		token, tally = e.voter.Claim(ctx, hint, markers)
		e.known.alive(tally)
	}
	e.sayAbstention(tally)
	e.known.heard = e.known.heard || token != 0 && tally.Count(quorum.Same) == 0
	if tally.Heard() {
		e.known.asked = e.clock.Now()
		if t := e.term.Load(); t != nil && tally.Count(quorum.New) < len(tally.Answers) {
			t.bereft.Store(false) // nodes that know of an election: perhaps of another leader's
		}
	}
	return token, tally
}

// sayAbstention says, once until they vote again, that an election waits for
// nodes without a memory of it.
func (e *Elector) sayAbstention(t quorum.Tally) {
	abstain := t.Count(quorum.New)
	waits := abstain > 0 && t.Count(quorum.Won)+abstain >= e.quorum.nodes.Majority() && t.Count(quorum.Won) < e.quorum.nodes.Majority()
	if waits && !e.known.waits {
		e.log.Info("waiting for nodes that abstain",
			"nodes", abstain, "at_most", e.cfg.Lease)
	}
	e.known.waits = waits
}

// assess reports what a lost claim told, and returns an error when waiting
// can't help.
func (e *Elector) assess(t quorum.Tally) error {
	troubles := t.Troubles()
	majority := e.quorum.nodes.Majority()
	if t.Count(quorum.Same) == 0 && t.Heard() {
		e.known.heard = true
		e.setTrouble(e.refusal(t))
		e.sayPause(t)
		return nil
	}
	permanent := 0
	for _, err := range troubles {
		if quorum.Permanent(err) {
			permanent++
		}
	}
	if (permanent >= majority || t.Count(quorum.Same) > 0) && !e.known.heard {
		return &QuorumError{Problem: Problem(ErrPermanent), Nodes: nodeErrors(troubles), kinds: []error{ErrPermanent}}
	}
	e.setTrouble(unreachable(t))
	return nil
}

func unreachable(t quorum.Tally) trouble {
	return trouble{key: ErrUnreachable.Error(), err: &QuorumError{
		Problem: Problem(ErrUnreachable), Nodes: nodeErrors(t.Troubles()), kinds: []error{ErrUnreachable},
	}}
}

// unconfirmed is why a renewal did not count.
func unconfirmed(t quorum.Tally) trouble {
	if !t.Heard() {
		return unreachable(t)
	}
	return trouble{key: "renewal", err: &QuorumError{
		Problem: fmt.Sprintf("only %d of %d Redis nodes renewed the lease", t.Count(quorum.Mine), len(t.Answers)),
		Nodes:   nodeErrors(t.Troubles()),
	}}
}

// refusal is why this candidate must not lead even if it could: another
// candidate believes in another set of nodes or in another lease, and two
// majorities could form. It also notices a process that uses our id.
func (e *Elector) refusal(t quorum.Tally) trouble {
	refuse := func(format string, args ...any) trouble {
		err := failed(nil, format, args...)
		return trouble{key: err.Error(), err: err}
	}
	for _, a := range t.Answers {
		if a.Status == quorum.Same {
			return refuse("%w", joinNodes(nodeErrors(t.Troubles())))
		}
		if a.Status != quorum.Held {
			continue
		}
		b, err := quorum.ParseBallot(a.Holder)
		if err != nil {
			no := refuse("%w: if nothing else uses the key %s, delete it", err, e.keys.Lock)
			if t.Majority(quorum.Won) { // a stranger's key on a minority knows of no other set of nodes
				e.log.Warn("redis node cannot vote", "error", no.err)
				continue
			}
			return no
		}
		if n := len(t.Answers); b.Nodes != n {
			return refuse("%s holds the lock and counts %d Redis nodes, this candidate %d: "+
				"refusing to lead until all candidates agree", b.Candidate, b.Nodes, n)
		}
		if b.Lease != e.cfg.Lease {
			return refuse("%s holds the lock with a lease of %v, this candidate uses %v: "+
				"refusing to lead until all candidates agree", b.Candidate, b.Lease, e.cfg.Lease)
		}
		if b.Candidate == e.cfg.ID && b.Incarnation != e.incarnation && !e.known.twin {
			e.known.twin = true
			e.log.Info("lock is held under this candidate's id by a previous incarnation or another process", "holder", a.Holder)
		}
	}
	return e.mismatch(t)
}

package elector

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

const handoverLook = 200 * time.Millisecond // between queries for the leader

// StepDown requests that the leader steps down, waits until a new leader is elected, and returns both. The
// leader first stops its work and then releases the lock. It campaigns again after its
// Config.Cooldown, and leads again if there is no other candidate. note, of at most 500
// bytes, is for the history.
//
// StepDown blocks for as long as the work takes to stop (at most the leader's
// Config.DrainTimeout) and some round trips. While no candidate can lead it blocks until ctx
// ends, so give ctx a deadline. The end of ctx does not take the request back.
//
// The error is ErrNoLeader when no candidate leads. It is also ErrNoLeader, with from
// set, when ctx ends before a new leader is elected, or when none will be because the election
// is paused. The error is ErrRefused when the leader does not answer, or its term has ended.
// StepDown does not check whether another candidate could lead: Successors does.
func (el *Election) StepDown(ctx context.Context, note string) (from, to Leader, err error) {
	leader, err := el.Leader(ctx)
	if err != nil {
		return from, to, err
	}
	return el.handOver(ctx, leader, "", note)
}

// Transfer is like StepDown, but the leader hands over to the candidate with that id: for a
// quarter of the lease the nodes elect no other candidate. The error is ErrRefused also when
// that candidate does not campaign, is not healthy, or leads already; when the election is
// paused, or so many nodes refuse writes that no candidate could be elected; and when another
// candidate was elected in the end. Transfer blocks as StepDown does, and before that for a
// roll call (Candidates).
func (el *Election) Transfer(ctx context.Context, id string) (from, to Leader, err error) {
	leader, all, err := el.electable(ctx)
	if err != nil {
		return from, to, err
	}
	heir, err := eligible(all, id)
	if err != nil {
		return from, to, err
	}
	from, to, err = el.handOver(ctx, leader, heir.Incarnation, "transfer to "+id)
	if err == nil && to.Candidate != id {
		err = newRefusal("%s did not take over in time: %s leads", id, to.Candidate)
	}
	return from, to, err
}

// eligible returns the candidate with the id to, which could lead now.
func eligible(all []CandidateStatus, to string) (heir CandidateStatus, err error) {
	var ids []string
	var named []CandidateStatus
	for _, c := range all {
		ids = append(ids, c.ID)
		if c.ID == to {
			named = append(named, c)
		}
	}
	switch {
	case len(all) == 0:
		err = newRefusal("no candidate answers in this election")
	case len(named) == 0:
		err = newRefusal("no candidate %s answers; there are: %s", to, strings.Join(ids, ", "))
	case len(named) > 1:
		err = newRefusal("%d candidates have the id %s (on %s and %s): give each its own id", len(named), to, named[0].Host, named[1].Host)
	case named[0].Role == roleLeading:
		err = newRefusal("%s is already the leader", to)
	case whyUnable(named[0]) != "":
		err = newRefusal("%s: try again later", whyUnable(named[0]))
	default:
		heir = named[0]
	}
	return heir, err
}

// handOver requests the leader to hand over to a candidate, or to any. from is that leader once it may have been requested.
func (el *Election) handOver(ctx context.Context, leader Leader, heir, note string) (from, to Leader, err error) {
	note = el.signed(note)
	if err := checkReason(note); err != nil {
		return from, to, err
	}
	events := el.bus.Subscribe(el.keys.Events, 1, func(s pubsub.Signal) bool { return s.Kind == pubsub.Message })
	defer events.Close()
	_ = events.Ready(ctx, peers.JoinTimeout) // without messages the change is noticed a little later
	got, ok, errs := el.channel().StepDown(ctx, leader.Incarnation, leader.Token, heir, note)
	switch {
	case errs != nil:
		return leader, to, noMajority(el.nodes.Len(), errs)
	case !ok:
		if why := el.silent(ctx, leader); why != "" {
			return leader, to, newRefusal("the leader %s does not answer and still leads: %s", leader.Candidate, why)
		}
	case got.Refused != "":
		return leader, to, newRefusal("%s", got.Refused)
	}
	to, err = el.follow(ctx, leader, events)
	return leader, to, err
}

// silent returns why a leader seems to have ignored a request; "": its term has ended since. It may have
// stepped down although its answer is missing: to publish the answer takes a right that the step-down does not.
func (el *Election) silent(ctx context.Context, l Leader) string {
	st, err := el.Status(ctx)
	switch {
	case err != nil || st.MayLead != nil:
		return "and the nodes do not show whether it renews its lease"
	case st.Leader == nil || st.Leader.holder.Attempt != l.holder.Attempt:
		return ""
	}
	// A leader renews four times a lease.
	if ago := st.Leader.holder.Lease - st.Leader.LeaseLeft; ago < st.Leader.holder.Lease/2 {
		return fmt.Sprintf("it renewed its lease %s ago, so it runs, but its subscription does not receive requests, or its user may not publish answers; "+
			"it subscribes anew within about a lease, so try again", unit(ago))
	}
	return "it has stopped renewing its lease: it may hang, be cut off or be dead"
}

// follow waits for the next leader. The locks show who leads, with which token; it may even be lower than the
// last one, if nodes lost their data. A message only triggers the next query.
func (el *Election) follow(ctx context.Context, from Leader, events *pubsub.Subscription) (to Leader, err error) {
	look := time.NewTicker(handoverLook)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return to, failed(ErrNoLeader, "no leader: %s received the request to step down, and no new leader has been elected yet", from.Candidate)
		case <-look.C:
		case <-events.Arrived():
		}
		events.Take()
		st, err := el.Status(ctx)
		switch {
		case err == nil && st.Leader == nil && st.MayLead == nil && st.Paused: // there will be no next leader
			return to, failed(ErrNoLeader, "no leader: %s has stepped down, and no leader will be elected until the pause ends (%s)", from.Candidate, st.Pause)
		case err == nil && st.Leader != nil && st.Leader.holder.Attempt != from.holder.Attempt:
			return *st.Leader, nil
		}
	}
}

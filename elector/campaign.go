package elector

import (
	"context"
	"errors"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/standby"
)

// campaign blocks until this candidate has won a term, until ctx ends, or until an
// error occurs that waiting does not cure; with try also until another candidate leads: it then returns neither.
func (m *machine) campaign(ctx context.Context, try bool) (*Term, error) {
	m.become(roleFollowing, nil)
	w := standby.New(standby.Config{
		Settings: standby.Settings{
			Incarnation: m.incarnation, Majority: m.nodes.Majority(), Lease: m.cfg.Lease,
			RetryEvery: m.timing.RetryEvery(), ReservedFor: m.reservedFor(), CallTimeout: m.timing.CallTimeout(),
		},
		Bus: m.bus, Keys: m.keys, NotSubscribed: m.logNotSubscribed, Parted: m.voter.Parted, OtherVersion: m.logOtherVersion,
	})
	defer w.Close()
	m.standsBy.Store(w)
	defer m.standsBy.Store(nil)
	for m.awaitHealth(ctx) {
		healthChanged := changed(m.probes.candidate) // before the claim, so that no change is missed
		answered := m.memory.answeredAt
		term, err := m.claimOnce(ctx, w)
		if term != nil || err != nil {
			return term, err
		}
		if leader := m.published.read().leader; try && m.memory.answeredAt != answered && leader != nil && leader.Incarnation != m.incarnation {
			return nil, ctx.Err()
		}
		w.Wait(ctx, healthChanged, m.claimWanted, m.peers.PauseEnded())
	}
	return nil, ctx.Err()
}

// claimOnce claims. When the claim is lost, the follower plans the next one.
func (m *machine) claimOnce(ctx context.Context, w *standby.Waiter) (*Term, error) {
	m.voter.Meet(ctx)
	over := m.nodes.Admit(ctx, m.timing.CallTimeout())
	if over == nil {
		return nil, nil //nolint:nilnil // ctx has ended
	}
	w.ForgetMessages()
	term, tally, err := m.claimAndJudge(ctx)
	over(tally.Answered())
	if term != nil || errors.Is(err, ErrPermanent) {
		return term, err
	}
	w.Lost(tally, err != nil)
	return nil, nil //nolint:nilnil // neither won nor failed: lost
}

// awaitHealth blocks while the candidate's probe fails: an unhealthy candidate does not
// campaign. It returns false when ctx ended first.
func (m *machine) awaitHealth(ctx context.Context) bool {
	if m.probes.fit() {
		return ctx.Err() == nil
	}
	var logged lasting
	for ctx.Err() == nil {
		healthChanged := changed(m.probes.candidate)
		switch st := m.probes.candidate.Status(); {
		case st.Healthy:
			if logged.note(m.log, unhealthy, "", time.Now()) {
				m.subscribers.publish(m.event(eventHealthy, nil, nil))
			}
			return true
		case st.LastErr == nil: // before the probe's first result there is nothing to log
		case logged.note(m.log, unhealthy, "unhealthy", time.Now(), "reason", st.Err):
			ev := m.event(eventUnhealthy, nil, nil)
			ev.Detail = st.Err.Error()
			m.subscribers.publish(ev)
		}
		again, cancel := context.WithTimeout(ctx, m.timing.RenewEvery()) // a first failure does not change Healthy
		m.away(again, healthChanged)
		cancel()
	}
	return false
}

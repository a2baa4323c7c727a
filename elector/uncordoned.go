package elector

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/standby"
)

// meet queries the nodes for what the first claim must know: who they are, and whether this
// candidate is cordoned.
func (m *machine) meet(ctx context.Context) {
	if m.acquainted {
		m.voter.Meet(ctx)
		return
	}
	m.acquainted = true
	known := make(chan struct{})
	go func() {
		defer close(known)
		m.isCordoned(ctx)
	}()
	m.voter.Meet(ctx)
	<-known
}

// isCordoned reports whether this candidate is cordoned. While too few nodes have shown that,
// at the start and after an outage, it blocks for a round trip.
func (m *machine) isCordoned(ctx context.Context) bool {
	m.standing.Load().Await(ctx, m.timing.CallTimeout())
	return m.cordoned() != nil
}

func (m *machine) notForCordoned() error {
	return failed(ErrNotLeader, "not the leader: this candidate is cordoned (%s)", m.cordoned())
}

// awaitUncordoned blocks while this candidate is cordoned. It returns false when ctx ended, or
// when it has waited: its probe may fail by now.
func (m *machine) awaitUncordoned(ctx context.Context, w *standby.Waiter) bool {
	c := m.cordoned()
	if c == nil {
		return ctx.Err() == nil
	}
	w.LeaveFrontRow() // its place is for one that can claim when a leader releases
	m.log.Info("cordoned, not campaigning", "cordon", c.ID, "note", c.String())
	var remind reminder
	remind.begin(time.Now())
	look := m.lookout()
	defer look.close()
	again := time.NewTicker(m.timing.RenewEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-m.recordoned:
		case <-again.C: // for the reminder
		case <-look.due.C:
			look.start()
		case views := <-look.views:
			look.take(views)
		}
		now := time.Now()
		if c = m.cordoned(); c == nil {
			m.log.Info("no longer cordoned", "for", remind.lasted(now))
			return false
		}
		if remind.due(now) {
			m.log.Info("still cordoned, not campaigning", "for", remind.lasted(now), "cordon", c.ID, "note", c.String())
		}
	}
}

package elector

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// poller reads the state of the election once per lease while this candidate does
// not claim: with knowledge older than a leader's lease the candidate would mistake
// a loss of data for a first start. A poll reads each node; it claims nothing and
// does not block. The poller belongs to the campaigning goroutine.
type poller struct {
	m     *machine
	due   *time.Timer
	views chan []registry.View // gets the result of the poll that is under way
}

// newPoller returns a poller whose first poll is due a lease after the nodes last
// answered, or at once.
func (m *machine) newPoller() *poller {
	l := &poller{m: m, due: time.NewTimer(0)}
	if !m.memory.answeredAt.IsZero() {
		if elapsed, ok := m.clock.Since(m.memory.answeredAt); ok {
			l.due.Reset(max(0, m.cfg.Lease-elapsed))
		}
	}
	return l
}

func (l *poller) close() { l.due.Stop() }

// start polls the nodes in the background: nodes that hang must not delay what this
// candidate does meanwhile.
func (l *poller) start() {
	m, views := l.m, make(chan []registry.View, 1) // buffered, because nobody reads a result that comes too late
	l.views = views
	m.voter.Go(func() { views <- registry.Read(context.Background(), m.nodes, *m.keys, m.timing.CallTimeout()) })
}

// take records what the nodes answered, and schedules the next poll: soon if no
// majority has answered, as a claim would.
func (l *poller) take(views []registry.View) {
	k, answers := l.m.memory, 0
	var locks []string
	var held []heldFor
	for _, v := range views {
		if v.Err != nil {
			continue
		}
		answers++
		locks, held = append(locks, v.Holder), append(held, heldFor{v.Holder, v.Left})
		k.highest = max(k.highest, v.Fence)
		k.traced = k.traced || v.Fence > 0 || v.Holder != "" || v.Foreign != "" || v.Paused
	}
	if answers < l.m.nodes.Majority() {
		l.due.Reset(l.m.cfg.Lease / 4)
		return
	}
	k.answeredAt = l.m.clock.Now()
	l.m.noteLeader(locks)
	l.m.noteHeld(held)
	l.due.Reset(l.m.cfg.Lease)
}

// observeOnly runs an observer: it reads once per lease who leads, until ctx ends. It claims nothing,
// and its probes have no influence on it.
func (m *machine) observeOnly(ctx context.Context) error {
	m.become(roleObserving, nil)
	if err := m.meet(ctx); err != nil {
		return err
	}
	look := m.newPoller()
	defer look.close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.due.C:
			look.start()
		case views := <-look.views:
			look.take(views)
			m.setCondition(m.unreadable(views))
		}
	}
}

// unreadable returns why an observer does not know who leads.
func (m *machine) unreadable(views []registry.View) condition {
	var errs []error
	for _, v := range views {
		if v.Err != nil {
			errs = append(errs, v.Err)
		}
	}
	if len(views)-len(errs) >= m.nodes.Majority() {
		return condition{}
	}
	return condition{key: ErrUnreachable.Error(), err: noMajority(m.nodes.Len(), errs)}
}

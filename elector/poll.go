package elector

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// poller reads the state of the election now and then while this candidate does
// not claim: what it knows must not be older than the lease of a leader, or it
// would take a loss of data for a first start. A look is a read of each node; it
// claims nothing and waits for no answer. Of the campaigning goroutine only.
type poller struct {
	m     *machine
	due   *time.Timer
	views chan []registry.View // of the look that is under way
}

// newPoller starts with a look, unless the nodes were queried less than a lease ago.
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

// start sends a look. Nodes that hang must not hold back what this candidate does
// meanwhile.
func (l *poller) start() {
	m, views := l.m, make(chan []registry.View, 1) // an answer that comes too late finds room, and no reader
	l.views = views
	m.voter.Go(func() { views <- registry.Read(context.Background(), m.nodes, *m.keys, m.timing.CallTimeout()) })
}

// take notes what the nodes answered. Without an answer of a majority it looks again
// soon, as a claim would.
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

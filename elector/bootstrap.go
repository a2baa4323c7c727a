package elector

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// bootstraps tells whether this candidate may believe that no leader sits when no
// node knows of one, and so claim at once instead of after the lease for which
// such nodes abstain. There are two such candidates:
//
//   - One that began less than a lease ago and has seen no trace of an election: a
//     first start. It can't tell this from a loss of data that came before its
//     first answer. From a lease on waiting costs as much as it has waited already,
//     so whatever kept it from asking (its probe, Redis out of reach, a process or
//     machine that was suspended) is no excuse.
//   - The leader from which the loss took the lock: its own lease still keeps
//     everybody else from being elected, and its own work has returned.
func (e *Elector) bootstraps() bool {
	if t := e.term.Load(); t != nil && t.bereft.Load() {
		_, left := t.grant.Left()
		return left > 0
	}
	if e.known.traced {
		return false
	}
	elapsed, ok := e.clock.Since(e.known.begun)
	return ok && elapsed < e.cfg.Lease
}

// bereaved tells whether a renewal found that a majority of the nodes had lost not
// only the lock, which others may then have had, but all that they knew.
func bereaved(t quorum.Tally) bool {
	lost := 0
	for _, a := range t.Answers {
		if a.Status == quorum.Planted && a.Note == quorum.Forgot {
			lost++
		}
	}
	return lost > len(t.Answers)/2
}

// lookout reads the state of the election now and then while this candidate does
// not claim: what it knows must not be older than the lease of a leader, or it
// would take a loss of data for a first start. A look is a read of each node; it
// claims nothing and waits for nobody. Of the campaigning goroutine only.
type lookout struct {
	e     *Elector
	due   *time.Timer
	views chan []quorum.View // of the look that is under way
}

// lookout starts with a look, unless the nodes were asked less than a lease ago.
func (e *Elector) lookout() *lookout {
	l := &lookout{e: e, due: time.NewTimer(0)}
	if !e.known.asked.IsZero() {
		if elapsed, ok := e.clock.Since(e.known.asked); ok {
			l.due.Reset(max(0, e.cfg.Lease-elapsed))
		}
	}
	return l
}

func (l *lookout) close() { l.due.Stop() }

// start sends a look. Nodes that hang must not hold back what this candidate does
// meanwhile.
func (l *lookout) start() {
	e, views := l.e, make(chan []quorum.View, 1) // an answer that comes too late finds room, and nobody
	l.views = views
	e.voter.Go(func() { views <- e.quorum.nodes.Read(context.Background(), e.keys, e.timing.CallTimeout()) })
}

// take notes what the nodes told. Without an answer of a majority it looks again
// soon, as a claim would.
func (l *lookout) take(views []quorum.View) {
	k, answers := &l.e.known, 0
	for _, v := range views {
		if v.Err != nil {
			continue
		}
		answers++
		k.highest = max(k.highest, v.Fence)
		k.traced = k.traced || v.Fence > 0 || v.Holder != "" || v.Foreign != "" || v.Paused
	}
	if answers < l.e.quorum.nodes.Majority() {
		l.due.Reset(l.e.cfg.Lease / 4)
		return
	}
	k.asked = l.e.clock.Now()
	l.due.Reset(l.e.cfg.Lease)
}

// rest waits for d, or until ctx ends, and looks meanwhile.
func (e *Elector) rest(ctx context.Context, d time.Duration) {
	look := e.lookout()
	defer look.close()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-look.due.C:
			look.start()
		case views := <-look.views:
			look.take(views)
		}
	}
}

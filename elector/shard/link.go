package shard

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// link wakes the goroutine that exchanges messages with one node.
type link struct{ woken chan struct{} }

func (l *link) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// rest waits until wake is called, at most for d. It returns false when ctx has ended.
func (l *link) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-l.woken:
	}
	return true
}

// beat reports to one node, again and again, that this member is alive, and reads the plan from it.
func (l *link) beat(ctx context.Context, r *reconciler, node int) {
	var have group.Version
	for {
		sent, at := time.Now(), r.admission.clock.Now()
		self, settings := r.sends()
		got, err := r.m.store.Beat(ctx, node, settings, self, have)
		if got.Accepted {
			r.admission.accepted(node, at)
		}
		if got.Plan != nil {
			have = got.Plan.Version
		}
		r.send(answer{node: node, Answer: got, err: err, took: time.Since(sent)})
		if !l.rest(ctx, max(r.m.cfg.beatEvery()-time.Since(sent), minBeat)) {
			return
		}
	}
}

// minBeat is the shortest time between two beats.
const minBeat = 10 * time.Millisecond

// answer is what a node answered to a beat.
type answer struct {
	group.Answer

	node int
	err  error
	took time.Duration
}

// roundTrips are the last two round trips to a node. The shorter one counts: the first request has to
// open a connection, and any request may be slow because of a pause.
type roundTrips [2]time.Duration

func (r roundTrips) add(took time.Duration) roundTrips { return roundTrips{took, r[0]} }
func (r roundTrips) best() time.Duration               { return min(r[0], r[1]) }

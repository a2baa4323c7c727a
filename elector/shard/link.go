package shard

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// link is the way to one node.
type link struct{ woken chan struct{} }

func (l *link) wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// rest waits until it is woken, at most for d; false when ctx has ended.
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

// beat reports to one node that this member lives, and takes the plan from it.
func (l *link) beat(ctx context.Context, m *Member, node int, record func() (group.Record, group.Settings), report func(event)) {
	var have group.Version
	for {
		sent, at := time.Now(), m.gate.recent.now()
		self, settings := record()
		got, err := m.store.Beat(ctx, node, settings, self, have)
		if err == nil {
			m.gate.recent.saw(node, got.Settings.Shards, at)
		}
		if got.Plan != nil {
			have = got.Plan.Version
		}
		report(answer{node: node, Answer: got, err: err, took: time.Since(sent)})
		if !l.rest(ctx, max(m.cfg.beatEvery()-time.Since(sent), minBeat)) {
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

// roundTrips are the last two times that a node took to answer. The shorter one counts: the
// first has a connection made, and any may meet a pause.
type roundTrips [2]time.Duration

func (r roundTrips) add(took time.Duration) roundTrips { return roundTrips{took, r[0]} }
func (r roundTrips) best() time.Duration               { return min(r[0], r[1]) }

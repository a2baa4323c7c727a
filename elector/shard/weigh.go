package shard

import (
	"context"
	"fmt"
	"time"
)

// weigh calls Config.Load a few times per lease, on a goroutine of its own: one that hangs
// holds up nothing but the loads, and Run does not wait for it.
func (m *Member) weigh(ctx context.Context, report func(event)) {
	tick := time.NewTicker(m.cfg.beatEvery())
	defer tick.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		loads := weighed{}
		var err error
		for _, s := range m.Owned() {
			l, failure := m.load(s)
			if l = rounded(l); l >= 0 {
				loads[s] = l
			}
			if failure != nil {
				err = failure
			}
		}
		if err != nil && !failed {
			m.log().Error("load panicked", "error", err)
		}
		failed = err != nil
		report(loads)
	}
}

// load is Config.Load of a shard. A panic costs balance, and not the process: as with a
// probe, what only observes the work must not end it.
func (m *Member) load(shard int) (l float64, err error) {
	defer func() {
		if value := recover(); value != nil {
			l, err = unknown, fmt.Errorf("shard %d: panic: %v", shard, value)
		}
	}()
	return m.cfg.Load(shard), nil
}

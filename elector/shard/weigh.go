package shard

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/callback"
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
			if failure != nil {
				err = failure
			} else if l >= 0 && !math.IsInf(l, 0) {
				loads[s] = l
			}
		}
		if err != nil && !failed {
			m.log().Error("load failed", "error", err)
		}
		failed = err != nil
		report(loads)
	}
}

// load is Config.Load of a shard. A panic costs balance, and not the process: as with a
// probe, what only observes the work must not end it.
func (m *Member) load(shard int) (float64, error) {
	var l float64
	if err := callback.Call(func() error { l = m.cfg.Load(shard); return nil }); err != nil {
		return 0, fmt.Errorf("shard %d: %w", shard, err)
	}
	return l, nil
}

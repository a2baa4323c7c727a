package shard

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/callback"
)

// weigh calls Config.Load for each owned shard, eight times per lease. It runs on a goroutine of its
// own, for which Run does not wait: a Load that hangs delays nothing but the loads.
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

// load returns Config.Load of a shard. A panic in Load costs balance, but does not end the process:
// like a probe, Load only observes the work, and must not end it.
func (m *Member) load(shard int) (float64, error) {
	var l float64
	if err := callback.Call(func() error { l = m.cfg.Load(shard); return nil }); err != nil {
		return 0, fmt.Errorf("shard %d: %w", shard, err)
	}
	return l, nil
}

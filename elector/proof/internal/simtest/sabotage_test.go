package simtest

import (
	"strconv"
	"time"
)

// deleteLocks is an operator's DEL while a leader sits.
func deleteLocks(s *Sim) {
	if s.chance(100) != 0 {
		return
	}
	for _, n := range s.nodes {
		n.Server().Del(s.keys.Lock)
		for i := range s.o.Shards {
			n.Server().Del(s.group.shards[i].keys.Lock)
		}
	}
	s.history.addf("sabotage: locks deleted")
}

// forgetAll takes the locks and the markers that would make the nodes abstain.
func forgetAll(s *Sim) {
	if s.chance(100) == 0 {
		for _, n := range s.nodes {
			n.Server().FlushAll()
			_ = n.Server().Set(s.keys.Fence, strconv.FormatInt(time.Now().UnixMilli(), 10))
		}
		s.history.addf("sabotage: everything deleted but the counters")
	}
}

// lowerFence makes nodes hand out old tokens again, where the hint of the
// claim does not help: its clock is behind.
func lowerFence(s *Sim) {
	if s.chance(8) == 0 {
		for _, n := range s.nodes {
			_ = n.Server().Set(s.keys.Fence, "5")
		}
		for _, h := range s.hosts {
			h.proc.Load().warp.Wall.Add(-int64(time.Minute))
		}
		s.history.addf("sabotage: counters and clocks set back")
	}
}

// staleProbe makes the checker believe that probes passed long ago.
func staleProbe(s *Sim) {
	if s.chance(100) == 0 {
		for _, h := range s.hosts {
			h.proc.Load().probe.pass.Add(-int64(s.t.lease * 2))
		}
	}
}

// stopClocks holds all clocks of all hosts back, the boot clock too: what no
// process can notice from inside.
func stopClocks(s *Sim) {
	for _, h := range s.hosts {
		w := h.proc.Load().warp
		for _, c := range []interface{ Add(int64) int64 }{&w.Mono, &w.Wall, &w.Boot} {
			c.Add(-int64(s.t.lease / 140))
		}
	}
}

package simtest

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// deleteLocks is an operator's DEL while a leader sits.
func deleteLocks(s *Sim) {
	if s.chance(100) == 0 {
		for _, n := range s.nodes {
			n.redis.Del(s.keys.Lock)
		}
		s.history.addf("sabotage: locks deleted")
	}
}

func deleteLocksBeside(s *Sim) {
	if s.chance(100) == 0 {
		for _, n := range s.nodes {
			n.redis.Del(s.beside[1].keys.Lock)
		}
		s.history.addf("sabotage: locks of %s deleted", s.beside[1].name)
	}
}

func deleteLocksOfShards(s *Sim) {
	if s.chance(100) == 0 {
		for _, n := range s.nodes {
			for i := range s.group.by {
				n.redis.Del(s.group.by[i].keys.Lock)
			}
		}
		s.history.addf("sabotage: locks of all shards deleted")
	}
}

// addGhost keeps a member alive that never campaigns.
func addGhost(s *Sim) {
	for _, n := range s.nodes {
		s.writeOver(n, 5, nil)
	}
}

// forgePlans has a shard handed over to a member that campaigns for it, again and again.
func forgePlans(s *Sim) {
	if s.chance(40) == 0 {
		plan := s.forgedPlan(rand.New(rand.NewPCG(uint64(s.chance(1000)), 1)))
		for _, n := range s.nodes {
			_ = n.redis.Set("mandate:{"+election+"}:plan", plan)
			n.redis.Publish("mandate:{"+election+"}:changes", "plan")
		}
	}
}

// forgetAll takes the locks and the markers that would make the nodes abstain.
func forgetAll(s *Sim) {
	if s.chance(100) == 0 {
		for _, n := range s.nodes {
			n.redis.FlushAll()
			_ = n.redis.Set(s.keys.Fence, strconv.FormatInt(time.Now().UnixMilli(), 10))
		}
		s.history.addf("sabotage: everything deleted but the counters")
	}
}

// stepNode steps the clock of a node just when the others that have its lock are no
// majority without it: they and it can elect another.
func stepNode(s *Sim) {
	stepUnder(s, s.keys)
}

// stepNodeBeside does so where the election that is checked in full loses nothing: what a step is
// allowed to do must respect each election.
func stepNodeBeside(s *Sim) {
	for _, e := range s.beside {
		stepUnder(s, e.keys)
	}
}

func stepUnder(s *Sim, keys protocol.Keys) {
	if s.chance(20) != 0 {
		return
	}
	for _, n := range s.nodes {
		if who, _ := n.attempt(keys.Lock); who != "" && !s.spares(n, keys) && (keys == s.keys || s.spares(n, s.keys)) {
			n.redis.FastForward(time.Hour)
			s.history.addf("sabotage: the clock of node %d steps", n.id)
			return
		}
	}
}

// lowerFence makes nodes hand out old tokens again, where the hint of the
// claim does not help: its clock is behind.
func lowerFence(s *Sim) {
	if s.chance(8) == 0 {
		for _, n := range s.nodes {
			_ = n.redis.Set(s.keys.Fence, "5")
			for _, e := range s.beside {
				_ = n.redis.Set(e.keys.Fence, "5")
			}
			for i := 0; s.group != nil && i < s.group.shards; i++ {
				_ = n.redis.Set(s.group.by[i].keys.Fence, "5")
			}
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

// forgetVersion makes the nodes forget which versions have led, and nothing else, while none leads.
func forgetVersion(s *Sim) {
	if s.leader() == nil {
		s.deleteVersions()
	}
}

// forgetLeadersVersion does so while one leads.
func forgetLeadersVersion(s *Sim) {
	if s.chance(40) == 0 && s.leader() != nil {
		s.deleteVersions()
		s.history.addf("sabotage: versions deleted")
	}
}

func (s *Sim) deleteVersions() {
	for _, n := range s.nodes {
		n.redis.Del(s.keys.Version)
	}
}

// disobey keeps candidates getting warm when they are told to stop.
func disobey(s *Sim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		p.warmth.disobeys = true
	}
}

// keepVacant keeps all candidates from leading once a leader has died.
func keepVacant(s *Sim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.retiring {
		for _, n := range s.nodes {
			_ = n.redis.Set(s.keys.Pause, "1")
		}
	}
}

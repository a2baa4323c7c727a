package simtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// cordonKey is where the cordons of all members are.
var cordonKey = protocol.CordonsKey("mandate")

// cordon has an operator cordon a member while faults happen, or drain it, and lift that later.
func (p *planner) cordon() {
	who, drain, d := p.whom(), p.rng.IntN(2) == 0, p.span()
	p.kind = "cordon"
	var id string
	p.add(func(s *Sim) {
		id = s.find(who).proc.Load().name
		s.putCordon(id, drain)
	}, "%s is cordoned (drained %v)", name(who), drain)
	p.later(d, func(s *Sim) { s.liftCordon(id) }, "%s: the cordon is lifted", name(who))
}

func (s *Sim) putCordon(id string, drain bool) {
	for _, n := range s.nodes {
		n.redis.HSet(cordonKey, id, fmt.Sprintf(`{"id":%q,"by":"ada","drain":%v}`, id, drain))
		n.redis.Publish(cordonKey, id)
	}
}

func (s *Sim) liftCordon(id string) {
	for _, n := range s.nodes {
		n.redis.HDel(cordonKey, id)
		n.redis.Publish(cordonKey, id)
	}
}

// liftCordons lifts all that the faults have left.
func (s *Sim) liftCordons() {
	for _, n := range s.nodes {
		ids, _ := n.redis.HKeys(cordonKey)
		for _, id := range ids {
			s.liftCordon(id)
		}
	}
}

// drains has a member drained and, after a while, given its part again: meanwhile it owns nothing,
// and the others everything, evenly.
func (s *Sim) drains() {
	if s.livingMembers() < 2 {
		return
	}
	p, owned := s.someMember()
	s.history.addf("%s is drained", p.name)
	before := s.shardTerms()
	s.putCordon(p.name, true)
	s.awaitGroup(2*s.t.lease, func() bool { return s.isEvenBut(p) })
	s.evenBut(p, "after a member was drained")
	s.movedOnly(before, owned, 0, "beside those of the member that is drained")
	s.mu.Lock()
	p.member.drained = true
	s.mu.Unlock()
	s.until(time.Now().Add(2 * s.t.lease))
	s.evenBut(p, "while a member was drained")
	s.mu.Lock()
	p.member.drained = false
	s.mu.Unlock()
	s.liftCordon(p.name)
	s.awaitGroup(2*s.t.lease, s.isEven)
	s.evenGroup("after the cordon was lifted")
}

// checkCordon checks that a member which is known to be drained is given nothing. s.mu is held.
func (s *Sim) checkCordon(p *proc, shard int) {
	if p.member.drained {
		s.violate("%s begins a term of shard %d although it is cordoned", p.name, shard)
	}
}

// isEvenBut reports whether every shard is owned, none by p, and evenly by the others.
func (s *Sim) isEvenBut(p *proc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var counts []int
	sum := 0
	for _, q := range s.procs {
		if !q.counts() || !q.stopped.IsZero() {
			continue
		}
		n := len(q.member.owned)
		if q == p {
			if n > 0 {
				return false
			}
			continue
		}
		counts, sum = append(counts, n), sum+n
	}
	return sum == s.group.shards && slices.Max(counts)-slices.Min(counts) <= 1
}

func (s *Sim) evenBut(p *proc, when string) {
	if !s.isEvenBut(p) {
		s.fault("%d shards are not owned evenly by the others %s: %v", s.group.shards, when, s.ownedCounts())
	}
}

package simtest

import (
	"fmt"
	"time"
)

// budget checks that no more shards move at one time than are allowed. Under faults an assigner does not
// know of all that its predecessor has begun. s.mu is held.
func (s *Sim) budget() {
	moving := 0
	for i := range s.group.by {
		if s.group.by[i].moving {
			moving++
		}
	}
	if !s.group.settled.Load() {
		return
	}
	s.group.most = max(s.group.most, moving)
	if moving > groupMoves {
		s.violate("%d shards move at one time, %d may", moving, groupMoves)
	}
}

// owners is who owns a shard right now. s.mu is held.
func (s *Sim) owners(i int) (all []*proc) {
	for _, p := range s.procs {
		if t := p.member.owned[i]; t != nil && p.counts() && t.term.Valid() {
			all = append(all, p)
		}
	}
	return all
}

// overlapOf checks that a shard has at most one valid owner. s.mu is held.
func (s *Sim) overlapOf(i int, when string) {
	if s.o.Mode == TokensOnly {
		return
	}
	if all := s.owners(i); len(all) > 1 && !s.mayOverlapIn(i, all) {
		s.violate("%d valid owners of shard %d at once (%s): %s", len(all), i, when, names(all))
	}
}

// mayOverlapIn is mayOverlap for a shard: what is young is the member, however late it was
// given the shard. s.mu is held.
func (s *Sim) mayOverlapIn(i int, ps []*proc) bool {
	if !s.allForgot() {
		return false
	}
	for _, p := range ps {
		if t := p.member.owned[i]; t != nil && s.wasYoung(p, t.claimSent) {
			return true
		}
	}
	return false
}

// lookGroup checks what must hold at any instant. s.mu is held.
func (s *Sim) lookGroup() {
	now := time.Now()
	for i := range s.group.shards {
		s.overlapOf(i, "step")
	}
	for _, p := range s.procs {
		if !p.counts() {
			continue
		}
		if limit := 2 * s.stopLimit(); !p.stopped.IsZero() && now.Sub(p.stopped) > limit && (p.resumed.IsZero() || now.Sub(p.resumed) > limit) {
			s.violate("%s: Run has not returned %v after shutdown", p.name, now.Sub(p.stopped))
			p.stopped = now.Add(time.Hour) // said once
		}
		for i, t := range p.member.owned {
			if c := p.member.claims[i]; c != nil && s.o.Mode != TokensOnly && t.term.Valid() {
				s.backed(shardOf{p, i}, t.term.Token(), s.group.by[i].keys, c.prefix)
			}
		}
	}
}

// shardOf names a member's shard.
type shardOf struct {
	p *proc
	i int
}

func (o shardOf) String() string { return fmt.Sprintf("%s in shard %d", o.p, o.i) }

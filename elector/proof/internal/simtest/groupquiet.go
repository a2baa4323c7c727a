package simtest

import (
	"fmt"
	"slices"
	"time"
)

// settleGroup heals everything and checks that each shard is owned, evenly, and that from
// then on as few as possible move.
func (s *Sim) settleGroup() {
	s.history.addf("--- quiet")
	s.healAll()
	g := s.group
	began := time.Now()
	limit := s.vacancyLimit()
	if g.faulty { // work that ignores its end, and then the longest rest: a cool-down doubles up to 16 times
		limit = 4*s.t.lease + 17*s.t.cooldown
	}
	if !s.awaitGroup(limit, func() bool { return s.vacantShards() == 0 }) {
		s.fault("%d of %d shards have no owner %v after the faults ended", s.vacantShards(), g.shards, limit)
	}
	s.mu.Lock()
	s.recovered = time.Since(began)
	s.mu.Unlock()
	s.until(time.Now().Add(4*s.t.lease + 17*s.t.cooldown))
	s.evenGroup("without any fault")
	g.settled.Store(true)
	before := s.shardTerms()
	s.until(time.Now().Add(4 * s.t.lease))
	s.movedOnly(before, nil, 0, "although nothing has changed")

	for _, change := range []func(){s.joins, s.sticks, s.retires, s.dies} {
		if !s.found() {
			change()
		}
	}
	s.halted()
}

// vacancyLimit is for how long a shard may have no owner without any fault: the lease of its last one, what
// nodes abstain that forgot, and then the claim.
func (s *Sim) vacancyLimit() time.Duration { return s.t.lease*105/100 + s.t.lease/2 }

// joins has a member join: it is given its part, and no other shard moves.
func (s *Sim) joins() {
	before := s.shardTerms()
	fresh := s.newHost(len(s.hosts), 0)
	s.hosts = append(s.hosts, fresh)
	fresh.boot("fresh")
	s.awaitGroup(2*s.t.lease, s.isEven)
	s.evenGroup("after a join")
	s.movedOnly(before, nil, s.group.shards/s.livingMembers(), "when a member joined")
}

// sticks has the work of one shard hang, and fail its probe: that shard alone goes elsewhere.
func (s *Sim) sticks() {
	shard := s.chance(s.group.shards)
	s.mu.Lock()
	owners := s.owners(shard)
	s.mu.Unlock()
	if len(owners) == 0 || s.livingMembers() < 2 {
		return
	}
	p := owners[0]
	s.history.addf("%s: the work of shard %d hangs", p.name, shard)
	before := s.shardTerms()
	p.member.stuck.Store(int64(shard))
	elsewhere := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		owners := s.owners(shard)
		return len(owners) == 1 && owners[0] != p
	}
	if !s.awaitGroup(4*s.t.lease, elsewhere) {
		s.fault("shard %d, whose work hangs at %s, has no other owner after %v", shard, p.name, 4*s.t.lease)
	}
	s.awaitGroup(s.t.lease, s.isEven)
	s.movedOnly(before, []int{shard}, 1, "beside the one that hangs") // another one comes in its place
	p.member.stuck.Store(-1)
	s.until(time.Now().Add(4*s.t.lease + 17*s.t.cooldown))
}

// retires shuts a member down: what it owned goes to the others, and nothing else moves.
func (s *Sim) retires() {
	if s.livingMembers() < 2 {
		return
	}
	p, owned := s.someMember()
	s.history.addf("%s retires", p.name)
	before := s.shardTerms()
	s.halt(p)
	s.awaitDone(p)
	if n := s.vacantShards(); n > 0 && !s.awaitGroup(s.t.lease/8+50*time.Millisecond, func() bool { return s.vacantShards() == 0 }) {
		s.fault("%d shards have no owner after %s has retired", n, p.name)
	}
	s.awaitGroup(s.t.lease, s.isEven)
	s.evenGroup("after a member retired")
	s.movedOnly(before, owned, 0, "beside those of the member that retired")
}

// dies cuts a member off for ever.
func (s *Sim) dies() {
	if s.livingMembers() < 2 {
		return
	}
	p, owned := s.someMember()
	s.history.addf("%s dies", p.name)
	before := s.shardTerms()
	s.group.settled.Store(false) // whoever is the assigner next does not know what was under way
	p.vanish()
	if !s.awaitGroup(s.t.lease*105/100+s.t.lease/8, func() bool { return s.vacantShards() == 0 }) {
		s.fault("%d shards have no owner %v after %s died", s.vacantShards(), s.t.lease*105/100+s.t.lease/8, p.name)
	}
	s.awaitGroup(s.t.lease, s.isEven)
	s.evenGroup("after a member died")
	s.movedOnly(before, owned, 0, "beside those of the member that died")
}

// vanish is a crash without another life.
func (p *proc) vanish() {
	s := p.sim
	s.mu.Lock()
	p.dead.Store(true)
	s.mu.Unlock()
	s.net.reset(func(c *conn) bool { return c.proc == p })
	s.halt(p)
}

// someMember draws a living member, and lists what it owns.
func (s *Sim) someMember() (*proc, []int) {
	s.mu.Lock()
	var all []*proc
	for _, p := range s.procs {
		if p.counts() && p.stopped.IsZero() {
			all = append(all, p)
		}
	}
	s.mu.Unlock()
	p := all[s.chance(len(all))]
	s.mu.Lock()
	defer s.mu.Unlock()
	var owned []int
	for i := range p.member.owned {
		owned = append(owned, i)
	}
	return p, owned
}

func (s *Sim) livingMembers() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		if p.counts() && p.stopped.IsZero() {
			n++
		}
	}
	return n
}

func (s *Sim) awaitGroup(within time.Duration, ok func() bool) bool {
	for end := time.Now().Add(within); time.Now().Before(end) && !s.found(); s.until(time.Now().Add(s.t.lease / 200)) {
		if ok() {
			return true
		}
	}
	return ok()
}

func (s *Sim) vacantShards() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.group.shards {
		if len(s.owners(i)) == 0 {
			n++
		}
	}
	return n
}

// counts is how many shards each living member owns.
func (s *Sim) ownedCounts() (counts []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.procs {
		if !p.counts() || !p.stopped.IsZero() {
			continue
		}
		n := 0
		for _, t := range p.member.owned {
			if t.term.Valid() {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts
}

// isEven reports whether every shard is owned, and no member owns over one more than another.
func (s *Sim) isEven() bool {
	counts := s.ownedCounts()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	most, least := slices.Max(counts), slices.Min(counts)
	return sum == s.group.shards && most-least <= 1
}

func (s *Sim) evenGroup(when string) {
	if !s.isEven() {
		s.fault("the %d shards are not owned evenly %s: %v", s.group.shards, when, s.ownedCounts())
	}
}

// shardTerms is how many terms each shard has had.
func (s *Sim) shardTerms() (all []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.group.by {
		all = append(all, s.group.by[i].terms)
	}
	return all
}

// movedOnly checks that no shards but these have had another term since, and so many others
// at most, once each.
func (s *Sim) movedOnly(before []int, these []int, others int, when string) {
	var moved []string
	n := 0
	for i, terms := range s.shardTerms() {
		switch d := terms - before[i]; {
		case d > 1 && !slices.Contains(these, i):
			n += d + others // too many in any case
			moved = append(moved, fmt.Sprintf("%d (%d times)", i, d))
		case d > 0 && !slices.Contains(these, i):
			n++
			moved = append(moved, fmt.Sprint(i))
		}
	}
	if n > others {
		s.fault("%d shards moved %s, %d may: %v", len(moved), when, others, moved)
	}
}

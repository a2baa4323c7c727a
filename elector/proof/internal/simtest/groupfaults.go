package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// scheduleGroup draws the faults of a group: those of the single election that hit processes,
// the network, nodes and clocks, and what other programs write over the keys of a group.
func (s *Sim) scheduleGroup(rng *rand.Rand) []step {
	p := &planner{sim: s, rng: rng}
	end := s.storm()
	faults := []weighted{
		{14, "way", p.linkFault}, {6, "partition", p.partition}, {8, "node", p.nodeFault}, {8, "node crashes", p.crashNode},
		{12, "member pauses", p.pause}, {5, "wall clock steps", p.wallStep}, {2, "boot clock comes or goes", p.noBoot},
		{8, "shutdown", p.shutdown}, {5, "member crashes", p.crash}, {12, "keys of the group", p.overwrite},
	}
	if s.group.faulty {
		faults = append(faults, weighted{8, "probe", p.probe})
	}
	p.draw(faults, 2*s.t.lease+p.upTo(s.t.lease), end)
	c := &planner{sim: s, rng: rand.New(rand.NewPCG(s.o.Seed, 7))}
	for c.at = c.upTo(6 * s.t.lease); c.at < end; c.at += c.upTo(6 * s.t.lease) {
		c.stepClock(end)
	}
	l := &planner{sim: s, rng: rand.New(rand.NewPCG(s.o.Seed, 8))}
	for l.at = l.upTo(8 * s.t.lease); l.at < end-time.Duration(len(s.nodes)+3)*s.t.lease; l.at += l.upTo(16 * s.t.lease) {
		l.lose()
	}
	p.steps = slices.Concat(p.steps, c.steps, l.steps)
	p.steps = slices.DeleteFunc(p.steps, func(st step) bool { return st.at >= end })
	slices.SortStableFunc(p.steps, func(a, b step) int { return int(a.at - b.at) })
	return p.steps
}

// overwrite writes over the plan or the members, on one node or on all.
func (p *planner) overwrite() {
	pick, one := p.rng.IntN(8), p.rng.IntN(2*len(p.sim.nodes))
	seed := p.rng.Uint64()
	what := []string{
		"the plan is lost", "a plan of a later term", "a plan of before", "a plan that is none", "the members are lost",
		"a member that is none", "a record that is none", "messages",
	}[pick]
	p.kind = "keys of the group: " + what
	p.add(func(s *Sim) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for i, n := range s.nodes {
			if one >= len(s.nodes) || i == one {
				s.writeOver(n, pick, rng)
			}
		}
	}, "keys of the group: %s (node %d)", what, one)
}

func (s *Sim) writeOver(n *node, pick int, rng *rand.Rand) {
	k := "mandate:{" + election + "}:"
	plan, members, changes := k+"plan", k+"members", k+"changes"
	text, _ := n.redis.Get(plan)
	switch pick {
	case 0:
		n.redis.Del(plan)
	case 1:
		_ = n.redis.Set(plan, s.forgedPlan(rng))
	case 2:
		if s.group.old == "" {
			s.group.old = text
			return
		}
		_ = n.redis.Set(plan, s.group.old)
	case 3:
		_ = n.redis.Set(plan, "9007199254740991.1 {\"shards\":1e9")
	case 4:
		n.redis.Del(members)
	case 5:
		n.redis.HSet(members, "ghost", fmt.Sprintf(`%d {"id":"ghost","incarnation":"ghost","weight":1,"owned":"0-%d","unable":"","seq":1}`,
			time.Now().Add(time.Hour).UnixMilli(), s.group.shards-1))
	case 6:
		n.redis.HSet(members, "ghost", "x")
	case 7:
		for range 10 {
			n.redis.Publish(changes, []string{"plan", "members", "x"}[rng.IntN(3)])
		}
	}
}

// forgedPlan gives all shards to one living member, and names it as the heir of each: nothing makes
// an owner release a shard to one that does not campaign, but for this.
func (s *Sim) forgedPlan(rng *rand.Rand) string {
	p := s.hosts[rng.IntN(len(s.hosts))].proc.Load()
	incarnation := "ghost"
	for _, n := range s.nodes {
		fields, _ := n.redis.HKeys("mandate:{" + election + "}:members")
		for _, f := range fields {
			if strings.Contains(n.redis.HGet("mandate:{"+election+"}:members", f), `"id":"`+p.name+`"`) {
				incarnation = f
			}
		}
	}
	heirs := ""
	if rng.IntN(2) == 0 {
		heirs = fmt.Sprintf(`,"heirs":{"%d":"%s"}`, rng.IntN(s.group.shards), incarnation)
	}
	return fmt.Sprintf(`%d.1 {"shards":%d,"members":[{"id":%q,"incarnation":%q}],"assigned":["0-%d"],"owned":[""]%s}`,
		uint64(time.Now().UnixMilli())+uint64(time.Hour/time.Millisecond), s.group.shards, p.name, incarnation, s.group.shards-1, heirs)
}

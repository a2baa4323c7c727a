package shard

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// act brings the candidacies in line with the plan.
func (r *reconciler) act() {
	for s, next := range r.next {
		c := r.running[s]
		switch {
		case next == r.me && r.me != group.NoMember:
			if c == nil {
				r.begin(s)
			}
			if c = r.running[s]; c != nil && s < len(r.owner) {
				c.watch(r.owner[s] != group.NoMember && r.owner[s] != r.me)
			}
		case next == group.NoMember || c == nil:
			// No other member could serve it better.
		case c.term == nil:
			c.cancel()
		case r.plan.Heirs[s] != "":
			c.handOver(r.plan.Heirs[s], r.plan.Members[next].ID)
		}
	}
}

// begin starts to campaign for a shard, unless this member must not do so now, such as after a
// failure.
func (r *reconciler) begin(shard int) {
	if time.Now().Before(r.unable[shard].until) || r.closing || r.m.silent.Load() {
		return
	}
	c, err := r.newCandidacy(shard)
	if err != nil { // unexpected: New has checked the configuration
		r.m.log().Error("cannot campaign for a shard", "shard", shard, "error", err)
		return
	}
	r.running[shard] = c
	c.start()
}

func (r *reconciler) newCandidacy(shard int) (*candidacy, error) {
	return newCandidacy(r, shard)
}

// onTick handles what changes with time alone: shards that this member may try again, work that does
// not stop, health.
func (r *reconciler) onTick() {
	now := time.Now()
	for s, u := range r.unable {
		// A failure is remembered for another Cooldown, so that the next one counts as consecutive.
		if now.After(u.until.Add(r.m.cfg.Cooldown)) {
			delete(r.unable, s)
		}
	}
	for s, c := range r.running {
		c.remind()
		if !c.stuck && c.overdue() && r.next[s] == r.me { // a shard that moves already has a next owner waiting
			c.stuck = true
			r.m.log().Warn("the work of a shard does not stop; the shard is for other members", "shard", s)
		}
	}
	if r.next != nil {
		r.act()
	}
	r.report()
}

package shard

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// How a group grows from 64 to 128 shards: the keys of shard 7 of 64 become those of the shards 7
// and 71 of 128, so shard 7 is cut, and 71 is new.
//
//  1. When all members are configured for 128 shards, the assigner proposes that number.
//  2. A while after a majority of the nodes has it, no term begins to work on one of 64 (gate).
//  3. Each owner ends its work. A majority confirms 128, and the work begins again on one of 128.
//  4. The nodes note that the shard is cut. Only then a member campaigns for the new shard.

// propose hands the assigner's settings for the group to the reconciler.
func (r *reconciler) propose(s group.Settings) { r.send(proposal(s)) }

type proposal group.Settings

func (r *reconciler) proposed(s group.Settings) {
	if s.After(r.settings) {
		r.adopt(s)
		r.agreed = true
	}
}

// agree brings the settings in line with those that the nodes have returned.
func (r *reconciler) agree() {
	majority := r.m.nodes.Majority()
	none, count := 0, map[group.Settings]int{}
	for _, a := range r.shown {
		switch {
		case a == nil:
		case a.Settings == (group.Settings{}):
			none++
		default:
			count[a.Settings]++
		}
	}
	if count[r.settings] < majority {
		r.landed = time.Time{}
	} else if r.landed.IsZero() {
		r.landed = time.Now()
		time.AfterFunc(r.m.gate.recent.settleTime(), func() { r.send(settling{}) })
	}
	for s, n := range count {
		// A node that has lost its settings gets them back with the next beat.
		if n < majority && (len(count) > 1 || n+none < majority || r.settings != (group.Settings{})) {
			continue
		}
		switch {
		case s == r.settings:
			r.agreed = true
		case !r.m.cfg.fits(s):
			r.send(failure{r.m.differs(s)})
		case s.After(r.settings) || !r.agreed:
			r.adopt(s)
			r.agreed = n >= majority
		}
	}
	if r.settings == (group.Settings{}) && none >= majority && len(count) == 0 {
		r.adopt(group.Settings{Shards: r.m.cfg.Shards, Lease: r.m.cfg.Lease})
	}
	r.cuts = r.cutByMajority()
}

// differs returns an error that explains why this member can't join the group, and what to do.
func (m *Member) differs(s group.Settings) error {
	ours := group.Settings{Shards: m.cfg.Shards, Lease: m.cfg.Lease}
	advice := "all members need the same; stop the others first, and wait for two leases, to change it"
	switch {
	case ours.Lease != s.Lease:
	case s.Shards > ours.Shards && s.Shards%ours.Shards == 0:
		advice = fmt.Sprintf("it has grown, or is growing, and can't shrink while it runs: set %d here, too; "+
			"for fewer stop all members first, and wait for two leases", s.Shards)
	default:
		advice = fmt.Sprintf("while it runs a group grows to a multiple of its shards (%d, %d, ...), when all members have that number; "+
			"for another one stop all members first, and wait for two leases", 2*s.Shards, 3*s.Shards)
	}
	return fmt.Errorf("shard: group %s: the members of the group have %s, this one %s: %s", m.cfg.Group, s, ours, advice)
}

// adopt puts other settings of the group in force.
func (r *reconciler) adopt(s group.Settings) {
	log := r.m.log().With(slog.Int("shards", s.Shards))
	switch {
	case s.From > 0:
		log.Info("the group grows", "from", s.From)
	case r.settings.From > 0:
		log.Info("the group has grown", "from", r.settings.From)
	case r.m.cfg.Shards > s.Shards:
		log.Info("the group will grow when all members are configured for that", "to", r.m.cfg.Shards)
	}
	r.settings, r.agreed, r.landed, r.changed = s, false, time.Time{}, true
	r.m.gate.settings.Store(&s)
	for i := range r.links {
		r.links[i].wake()
	}
	if r.next != nil { // no member has the new shards yet
		r.next = append(r.next, none(max(0, s.Shards-len(r.next)))...)
	}
	// A plan for this number of shards may have arrived already.
	if p := newest(r.byNode, r.m.nodes.Majority()); p != nil {
		r.follow(p)
	}
}

// cutByMajority returns the shards that a majority of the nodes has noted as cut, with the highest
// token noted for each. When all are cut, it adopts the settings of the grown group.
func (r *reconciler) cutByMajority() map[int]uint64 {
	if r.settings.From == 0 {
		return nil
	}
	nodes, cuts := map[int]int{}, map[int]uint64{}
	for _, a := range r.shown {
		if a == nil || a.Settings != r.settings {
			continue
		}
		for s, token := range a.Cuts {
			nodes[s]++
			cuts[s] = max(cuts[s], token)
		}
	}
	for s := range cuts {
		if nodes[s] < r.m.nodes.Majority() || s >= r.settings.From {
			delete(cuts, s)
		}
	}
	if len(cuts) != len(r.cuts) {
		r.changed = true
	}
	if len(cuts) == r.settings.From {
		done := r.settings
		done.From, done.Floor = 0, max(r.floor(), highest(cuts))
		r.adopt(done)
		r.agreed = true
		return nil
	}
	return cuts
}

func highest(cuts map[int]uint64) (token uint64) {
	for _, t := range cuts {
		token = max(token, t)
	}
	return token
}

// floor returns what the tokens of all shards must be above: the tokens of the shards that they were
// part of.
func (r *reconciler) floor() uint64 { return max(r.settings.Floor, highest(r.cuts)) }

// isCut reports whether a member may campaign for a shard: a new shard must wait until the shard that
// it was part of is cut.
func (r *reconciler) isCut(shard int) bool {
	if r.settings.From == 0 || shard < r.settings.From {
		return true // not a new shard: its lock alone decides
	}
	_, is := r.cuts[shard%r.settings.From]
	return is
}

// noteCuts has the nodes note again that shards of this member are cut, in case that they were
// unreachable before, or have lost the note.
func (r *reconciler) noteCuts() {
	var all []*passage
	for s, c := range r.running {
		if c.term != nil && c.term.Shards == r.settings.Shards && s < r.settings.From && !r.isCut(s+r.settings.From) {
			all = append(all, &passage{Entry: group.Entry{Shard: s, Token: c.term.Token()}, valid: c.term.Valid})
		}
	}
	r.m.gate.note(r.ctx, r.settings, all)
}

// settling wakes the reconciler when settings may have settled.
type settling struct{}

// settle reports whether no term of any member begins to work any more with an earlier number of
// shards that the nodes had returned. From then on a shard that its owner notes as cut stays cut.
func (r *reconciler) settle() bool {
	if r.landed.IsZero() || time.Since(r.landed) < r.m.gate.recent.settleTime() {
		return false
	}
	if s := r.m.gate.settled.Load(); s == nil || *s != r.settings {
		s := r.settings
		r.m.gate.settled.Store(&s)
	}
	return true
}

// cut restarts work that began with an earlier number of shards, for at most Config.Moves shards at a
// time: not all of the member's work should stand still at once.
func (r *reconciler) cut() {
	if !r.settle() {
		return // the work could not begin again, or the new shards could not get owners
	}
	running := 0
	var uncut []int // empty unless the group grows: this runs at every batch of events
	for s, c := range r.running {
		switch {
		case c.term == nil || c.term.Shards == r.settings.Shards:
		case c.again == nil:
			running++
		default:
			uncut = append(uncut, s)
		}
	}
	slices.Sort(uncut)
	for _, s := range uncut[:min(len(uncut), max(0, r.m.cfg.Moves-running))] {
		c := r.running[s]
		c.again()
		c.again = nil
	}
}

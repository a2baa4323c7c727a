package shard

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// take applies one event.
func (r *reconciler) take(e event) {
	switch e := e.(type) {
	case answer:
		r.answeredBy(e)
	case began:
		e.c.elected(e.term)
		r.led, r.changed = true, true
	case listens:
		e.c.listens, r.changed = true, true
	case warmed:
		e.c.gotWarm(e.err)
		r.changed = true
	case ran:
		r.termOver(e.c)
	case over:
		r.candidacyOver(e)
	case failure:
		r.failed = cmp.Or(r.failed, e.err)
	}
}

// termOver handles the return of a term's work.
func (r *reconciler) termOver(c *candidacy) {
	c.workDone()
	r.changed = true
	if c.stuck {
		c.cancel() // other members should own the shard by now
	}
}

// candidacyOver handles the end of a candidacy.
func (r *reconciler) candidacyOver(e over) {
	c := e.c
	c.cancel()
	delete(r.running, c.shard)
	r.changed = true
	if r.closing && errors.Is(e.err, elector.ErrNotReleased) {
		r.unreleased = append(r.unreleased, fmt.Errorf("shard %d: %w", c.shard, e.err))
	}
	// If another program has overwritten the keys of one shard, the member keeps its other shards.
	// A member that can't work at all must end Run instead of continuing without any shard.
	if errors.Is(e.err, elector.ErrPermanent) && !r.led && len(r.running) == 0 {
		r.send(failure{e.err})
	}
	moved := c.shard < len(r.next) && r.next[c.shard] != r.me
	failed := e.err != nil || c.unfit != nil || e.why != nil && leaves(e.why.Reason)
	if (failed && !moved || c.stuck) && !r.closing {
		u := r.unable[c.shard]
		u.trips = min(u.trips+1, 5)
		u.until = time.Now().Add(r.m.cfg.Cooldown << (u.trips - 1))
		r.unable[c.shard] = u
		r.m.log().Warn("leaving a shard to other members", "shard", c.shard, "for", r.m.cfg.Cooldown<<(u.trips-1), "error", cmp.Or(e.err, c.unfit))
	}
}

// answeredBy handles a node's answer to a beat: its plan, its settings, or its error.
func (r *reconciler) answeredBy(a answer) {
	if a.err != nil && r.errs[a.node] == nil && r.ctx.Err() == nil {
		r.m.log().Warn("redis node refused this member or did not answer", "error", a.err)
	}
	r.errs[a.node], r.took[a.node] = a.err, r.took[a.node].add(a.took)
	if a.err == nil {
		r.joined, r.answered[a.node] = r.joined || a.Accepted, time.Now()
		r.shown[a.node] = &a.Settings
		r.agree()
	}
	if rediserr.Permanent(a.err) {
		r.misconfigured()
	}
	r.refused()
	if a.Plan == nil {
		return
	}
	r.byNode[a.node] = a.Plan
	if p := newest(r.byNode, r.m.nodes.Majority()); r.plan == nil || p.Version != r.plan.Version {
		r.follow(p)
	}
}

// refused ends Run when a majority of the nodes knows of an election with the group's name. On a
// minority, keys of such an election may be left over from one that never elected a leader.
func (r *reconciler) refused() {
	count := 0
	for _, err := range r.errs {
		if errors.As(err, new(*group.ElectionError)) {
			count++
		}
	}
	if count >= r.m.nodes.Majority() {
		r.send(failure{&nameTaken{r.m.cfg.Group}})
	}
}

// nameTaken is the error of a group that has the name of an election. It is an elector.ErrPermanent.
type nameTaken struct{ group string }

func (e *nameTaken) Error() string {
	return fmt.Sprintf("shard: group %[1]s: an election has this name: choose another one, or mandate forget %[1]s if none of its candidates runs any more", e.group)
}

func (*nameTaken) Is(target error) bool { return target == elector.ErrPermanent }

// misconfigured ends Run when a majority of the nodes answers with errors that waiting does not fix,
// and no node has ever accepted this member.
func (r *reconciler) misconfigured() {
	count := 0
	for _, err := range r.errs {
		if rediserr.Permanent(err) {
			count++
		}
	}
	if !r.joined && count >= r.m.nodes.Majority() {
		r.send(failure{fmt.Errorf("shard: group %s: %w: %w", r.m.cfg.Group, elector.ErrPermanent, errors.Join(r.errs...))})
	}
}

package peers

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

var errOutranked = errors.New("a candidate with a higher priority is available")

// updateSuccession does what the order of succession requires: it publishes changes of this candidate, and as
// a leader looks for an heir.
func (p *Peers) updateSuccession(ctx context.Context) {
	self, now := p.self(), time.Now()
	p.others.forget(now, 10*p.c.Lease)
	if now.Sub(p.rollCallAt) > p.c.RenewEvery { // a candidate that did not answer the last roll call is gone
		p.others.forget(now, now.Sub(p.rollCallAt))
	}
	shown := self.Role + " " + self.Detail
	if shown != p.shown {
		p.shown = shown
		p.publish(context.Background(), request{Kind: info, Candidate: &self})
	}
	token, leads := p.c.Self.Leading()
	if !leads {
		if self.Role != Stopping { // the release of a stopping leader still names the heir
			p.heir.Store(nil)
		}
		return
	}
	p.updateHeir(ctx, self, token, now)
}

// updateHeir is what a leader does: it calls the roll if that is due, names the heir, and hands over to a candidate that
// outranks this one.
func (p *Peers) updateHeir(ctx context.Context, self Candidate, token uint64, now time.Time) {
	var higher *entry // this leader has to yield to it, once it has answered the roll call of this term
	if p.c.Order == ByPriority && !p.c.Self.IsPaused() {
		higher = p.others.outranks(self, p.c.Lease, now)
	}
	// The candidate to which this leader should yield may have died since it was last seen.
	doubtful := higher != nil && now.Sub(higher.at) > p.c.RenewEvery && now.Sub(p.rollCallAt) > p.c.RenewEvery
	if token != p.rollCallToken || now.Sub(p.rollCallAt) > 4*p.c.Lease || doubtful {
		p.rollCallToken, p.rollCallAt = token, now
		p.publish(context.Background(), request{Kind: leaderAll, Nonce: rand.Text()})
	}
	first := ""
	if heir := p.others.heir(p.c.Order, self); heir != nil {
		first = heir.Incarnation
	}
	if first != p.Heir() {
		p.heir.Store(&first)
	}
	if higher != nil && higher.at.After(p.rollCallAt) && now.Sub(higher.at) <= p.c.RenewEvery && p.c.Self.Yieldable(ctx) == nil {
		p.c.Self.HandOver(token, higher.Incarnation, errOutranked)
	}
}

// Order decides which candidate should lead next: Config.Succession of package elector, which describes them.
type Order string

// The orders.
const (
	Race        Order = ""
	ByPriority  Order = "priority"
	BySeniority Order = "seniority"
)

// maxOthers bounds a roster: a flood of forged candidates must not fill the memory.
const maxOthers = 1000

// roster is what a candidate knows of the others, by incarnation.
type roster map[string]entry

type entry struct {
	Candidate
	at time.Time // when it was received
}

func (r *roster) note(c Candidate, now time.Time) {
	if *r == nil {
		*r = roster{}
	}
	if _, known := (*r)[c.Incarnation]; known || len(*r) < maxOthers {
		(*r)[c.Incarnation] = entry{c, now}
	}
}

// forget drops the candidates from which nothing was received for that time.
func (r roster) forget(now time.Time, after time.Duration) {
	maps.DeleteFunc(r, func(_ string, c entry) bool { return now.Sub(c.at) > after })
}

// heir returns the candidate that should lead after the leader self, among those with the role
// following; nil: none in particular.
func (r roster) heir(o Order, self Candidate) *entry {
	var able []entry
	for _, c := range r {
		if c.Incarnation != self.Incarnation && c.Healthy && c.Role == Following {
			able = append(able, c)
		}
	}
	if len(able) == 0 || o == Race {
		return nil
	}
	if o == ByPriority {
		highest := slices.MaxFunc(able, func(a, b entry) int { return cmp.Compare(a.Priority, b.Priority) })
		able = slices.DeleteFunc(able, func(c entry) bool { return c.Priority < highest.Priority })
	}
	heir := slices.MinFunc(newestOf(able), func(a, b entry) int { // of equals the longest running one
		return cmp.Or(cmp.Compare(a.began(), b.began()), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return &heir
}

// newestOf returns the candidates with the newest version: a deploy is about to replace the others.
// It keeps a candidate whose version is no semantic version.
func newestOf(all []entry) []entry {
	newest := ""
	for _, c := range all {
		if v := canonical(c.Version); semver.Compare(v, newest) > 0 {
			newest = v
		}
	}
	return slices.DeleteFunc(all, func(c entry) bool {
		v := canonical(c.Version)
		return v != "" && semver.Compare(v, newest) < 0
	})
}

// canonical returns s with a leading v; empty if s is no version by Semantic Versioning 2.0.0, which
// has no short forms (v1.2).
func canonical(s string) string {
	v := "v" + strings.TrimPrefix(s, "v")
	if !semver.IsValid(v) || semver.Canonical(v)+semver.Build(v) != v {
		return ""
	}
	return v
}

// began returns when the candidate started to run, roughly, by this machine's clock, in ms.
func (c entry) began() int64 { return c.at.Add(-c.RunningFor).UnixMilli() }

// outranks returns the candidate to which a leader must yield, if any: one with a higher
// priority that has been healthy for at least hold, so that leadership does not flap.
func (r roster) outranks(self Candidate, hold time.Duration, now time.Time) *entry {
	c := r.heir(ByPriority, self)
	if c == nil || c.Priority <= self.Priority || c.HealthyFor+now.Sub(c.at) < hold {
		return nil
	}
	return c
}

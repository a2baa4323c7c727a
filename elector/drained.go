package elector

import (
	"context"
	"slices"
	"time"
)

// drainer finds out whether another candidate could lead in place of this one, while an operator
// drains it: the last leader stays, and asks again. Its fields belong to the state machine's
// goroutine.
type drainer struct {
	m       *machine
	due     <-chan time.Time // when to look again; nil: unless something changes, not
	found   chan error       // why no other candidate could lead, nil: one could; nil until the first look
	looking bool
	remind  reminder
}

// look queries the other candidates in the background, once at a time: one that hangs is waited
// for longer than the lease may be left without a renewal.
func (d *drainer) look() {
	if d.m.drained() == nil {
		d.remind = reminder{}
		return
	}
	if d.looking {
		return
	}
	if d.found == nil { // few leaders are ever drained
		d.found = make(chan error, 1)
	}
	d.looking = true
	d.m.voter.Go(func() { d.found <- d.m.replaceable(d.m.going) })
}

// take takes an answer, and returns why the leader hands over; nil: it does not.
func (d *drainer) take(err error) (why error) {
	d.looking = false
	c := d.m.drained()
	if c == nil {
		return nil
	}
	if err == nil {
		return failed(nil, "drained %s", c)
	}
	d.due = time.After(d.m.cfg.Lease)
	now := time.Now()
	switch {
	case d.remind.since.IsZero():
		d.remind.begin(now)
		d.m.log.Warn("drained, but remains leader", "cordon", c.ID, "note", c.String(), "error", err)
	case d.remind.due(now):
		d.m.log.Warn("drained, but still remains leader", "for", d.remind.lasted(now), "cordon", c.ID, "note", c.String(), "error", err)
	}
	return nil
}

// replaceable is why no other candidate could be elected if this leader stepped down; nil: one could.
func (m *machine) replaceable(ctx context.Context) error {
	if err := m.yieldable(ctx); err != nil {
		return err
	}
	able, err := m.election.Successors(ctx)
	if err != nil {
		return err
	}
	// A candidate may not know yet that it is cordoned, as when several are drained at once.
	all, err := cordonsOn(ctx, m.nodes, m.election.Prefix())
	if err != nil {
		return err
	}
	for _, c := range able {
		if !slices.ContainsFunc(all, func(is Cordon) bool { return is.ID == c.ID || is.ID == c.Host }) {
			return nil
		}
	}
	return newRefusal("no other candidate could lead now: all are cordoned")
}

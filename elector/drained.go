package elector

import (
	"context"
	"slices"
	"time"
)

// drainer checks whether another candidate could lead, while an operator drains this leader. If none
// could, this candidate remains leader and checks again later. Its fields belong to the state
// machine's goroutine.
type drainer struct {
	m       *machine
	due     <-chan time.Time // when to look again; nil: only when a cordon changes
	found   chan error       // gets why no other candidate could lead, nil if one could; nil until the first look
	looking bool
	remind  reminder
}

// look queries the other candidates, if this leader is drained. It does so in the background, one
// query at a time: waiting for a candidate that hangs takes longer than the lease lasts without a
// renewal.
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
	d.m.voter.Go(func() { d.found <- d.m.replaceable(d.m.runCtx) })
}

// take handles the result of a look, and returns why the leader hands over; nil: it does not.
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

// replaceable returns why no other candidate could be elected if this leader stepped down; nil: one
// could.
func (m *machine) replaceable(ctx context.Context) error {
	if err := m.handoverBlocked(ctx); err != nil {
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

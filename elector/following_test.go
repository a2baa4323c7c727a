package elector_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

func observing(cfg *elector.Config) { cfg.Observer = true }

// An observer knows who leads and answers roll calls, and leads in no case: not when it was there
// first, not when everybody else has left, not on request.
func TestObserverNeverLeads(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		o := c.Start("o", observing, func(cfg *elector.Config) { cfg.Succession, cfg.Priority = elector.SuccessionPriority, 9 })
		o.Quiet(3 * shortLease)
		a := c.Start("a", func(cfg *elector.Config) { cfg.Succession = elector.SuccessionPriority })
		term := a.Elected(3 * shortLease)
		o.Quiet(3 * shortLease)
		if l, ok := o.LastLeader(); !ok || l.Candidate != "a" || l.Token != term.Token() || o.Check() != nil {
			t.Errorf("%+v, %t, %v", l, ok, o.Check())
		}
		op := electionOf(c.Quorum("operator"), "orders")
		roll, err := op.Candidates(t.Context())
		if err != nil || len(roll) != 2 || roll[1].Role != "observing" || !roll[1].Healthy || roll[1].Able() {
			t.Errorf("%+v, %v", roll, err)
		}
		if _, err := op.Successors(t.Context()); !errors.Is(err, elector.ErrRefused) {
			t.Errorf("successors: %v", err)
		}
		if _, err := op.Transfer(within(t, time.Minute), "o"); !errors.Is(err, elector.ErrRefused) {
			t.Errorf("transfer: %v", err)
		}
		a.Shutdown()
		o.Quiet(3 * shortLease)
		o.Shutdown()
		if locks := c.Locks(); locks > 0 {
			t.Errorf("%d locks", locks)
		}
	})
}

package elector_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// A candidate of the highest priority that had died without a word made every
// leader step down for it, one after another.
func TestLeadersDoNotYieldToTheDead(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all := ranked(t, c, elector.SuccessionPriority, nil) // all of one priority: the first leads
		high := c.start("high", func(cfg *elector.Config) { cfg.Succession, cfg.Priority = elector.SuccessionPriority, 9 })
		high.quiet(shortLease / 2) // it has to be healthy for longer before it may take over
		c.each(cut, "high")
		all[0].quiet(4 * shortLease)
		if !all[0].IsLeader() {
			t.Error("the leader yielded to a dead one")
		}
		for _, x := range all[1:] {
			x.quiet(0)
		}
	})
}

// A candidate whose probe has much to say was not heard at all.
func TestLongErrorOfAProbeHidesNoCandidate(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := c.start("a")
		a.elected(3 * shortLease)
		c.start("b", func(cfg *elector.Config) {
			cfg.Probe = health.Func(func(context.Context) error { return errors.New(strings.Repeat("ü", 10_000)) })
		}).quiet(shortLease)
		all, err := electionOf(c.quorum("operator"), "orders").Candidates(t.Context())
		if err != nil || len(all) != 2 || all[1].Healthy || !strings.Contains(all[1].Detail, "üü") || len(all[1].Detail) > 1000 {
			t.Errorf("%d candidates, %v", len(all), err)
		}
	})
}

// Two candidates of one process share a connection, and count as one listener.
func TestRollCallOfTwoCandidatesInOneProcess(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		q := c.quorum("one process")
		makeCandidate(t, q, "a").run(nil).elected(3 * shortLease)
		makeCandidate(t, q, "b").run(nil).quiet(shortLease)
		for range 20 {
			if all, err := electionOf(c.quorum("operator"), "orders").Candidates(t.Context()); err != nil || len(all) != 2 {
				t.Fatalf("%+v, %v", all, err)
			}
		}
	})
}

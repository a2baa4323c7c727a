package elector_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A candidate that lives through an outage of all nodes reports why its term ended as soon
// as they answer: "vanished" sends people to the machine, which is well.
func TestEndDuringAnOutageIsReportedAfterIt(t *testing.T) {
	for name, w := range map[string]struct {
		begin func(*cluster)
		words string
	}{
		"down":   {func(c *cluster) { c.Each(down) }, "did not answer for 7.4s"},
		"frozen": {func(c *cluster) { c.Each(frozen) }, "did not answer for 7.4s"},
		"disk full": {func(c *cluster) {
			for _, n := range c.Nodes {
				n.RefuseWith("MISCONF Errors writing to the AOF file: No space left on device")
			}
		}, "MISCONF Errors writing to the AOF file: No space left on device"},
	} {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			c.Seed()
			a, one := leading(c, "a")
			time.Sleep(3 * shortLease)
			w.begin(c)
			wantReason(t, one, shortLease, elector.ReasonExpired)
			time.Sleep(2 * shortLease)
			c.Heal()
			for _, n := range c.Nodes {
				n.RefuseWith("")
			}
			b := c.Start("b")
			first(t, 3*shortLease, a, b)
			time.Sleep(shortLease)
			all, err := electionOf(c.Quorum("operator"), "orders").History(t.Context(), 20)
			if err != nil || len(all) < 3 {
				t.Fatalf("%+v, %v", all, err)
			}
			for _, r := range all {
				if r.Reason == elector.ReasonVanished || r.From.IsZero() {
					t.Errorf("%+v", r)
				}
			}
			if r := all[1]; r.Token != one.Token() || r.Reason != elector.ReasonExpired || !strings.Contains(r.Detail, w.words) {
				t.Errorf("history has %+v", r)
			}
		})
	}
}

// A report about a term that no node knows of, as after a loss of all data, is not believed.
func TestLateReportAfterALossOfData(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		_, one := leading(c, "a")
		time.Sleep(shortLease)
		c.Each(down)
		wantReason(t, one, shortLease, elector.ReasonExpired)
		c.Nodes[0].RestartEmpty()
		_ = c.Nodes[0].Server().Set(fenceKey, "5")
		_ = c.Nodes[0].Server().Set(lockKey, "b/abc/1 n=1 lease=10000 token=5")
		c.Heal()
		time.Sleep(shortLease / 2)
		all, err := electionOf(c.Quorum("operator"), "orders").History(t.Context(), 20)
		if err != nil || len(all) != 0 {
			t.Errorf("%+v, %v", all, err)
		}
		entries, err := c.Nodes[0].Server().Stream("mandate:{orders}:history")
		if err != nil || len(entries) == 0 {
			t.Errorf("nothing was reported: %v", err)
		}
	})
}

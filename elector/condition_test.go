package elector_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/module"
)

// A condition that lasts is logged again, ever less often, and its end says how long it was:
// the first line is out of sight when somebody looks.
func TestLongConditionIsLoggedAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		a, _ := leading(c, "a")
		time.Sleep(shortLease)
		for _, n := range c.Nodes[1:] {
			n.Set(down)
		}
		time.Sleep(shortLease/4 + 16*time.Minute) // within a quarter of a lease a renewal is due
		c.Heal()
		a.Elected(shortLease)
		time.Sleep(shortLease)
		if n := len(a.Log.Lines("cannot renew the lease")); n != 1 {
			t.Errorf("the leader's condition is logged %d times", n)
		}
		for what, words := range map[string][]string{
			"the candidate": {"cannot campaign", "still unable to campaign", "can campaign again", "for=15m5"}, // after its term
			"the node":      {"redis node is not responding", "redis node still unresponsive", "redis node responds again", "for=16m"},
		} {
			of := map[string]int{"the candidate": 1, "the node": 2}[what]
			// After 10 s, a minute, and every five minutes.
			if n := len(a.Log.Lines(words[0])); n != of {
				t.Errorf("%s: begins %d times", what, n)
			}
			if n := len(a.Log.Lines(words[1], "for=")); n != 4*of {
				t.Errorf("%s: reminded of %d times", what, n)
			}
			if n := len(a.Log.Lines(words[2], words[3])); n != of {
				t.Errorf("%s: ends %d times", what, n)
			}
		}
	})
}

// A process whose renewals wait in it says so once for all its elections, also of different leases, as long as that lasts, and
// each Check does.
func TestOverloadIsSaidOnce(t *testing.T) {
	for _, leases := range [][]time.Duration{{shortLease, shortLease, shortLease}, {shortLease, 30 * shortLease}} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			q, logs, all := c.Quorum("process"), "", []*candidate(nil)
			for i, lease := range leases {
				a := makeCandidate(t, q, "a", func(cfg *elector.Config) {
					cfg.Election, cfg.Lease, cfg.StopMargin = fmt.Sprint("election-", i), lease, 0
				}).Begin(nil)
				a.Elected(3 * lease)
				all = append(all, a)
			}
			nodes, _ := q.Parts(module.Only{})
			longest := slices.Max(leases)
			for range 64 {
				nodes.Renewed(longest/5, longest/5)
			}
			if queued := all[len(all)-1].Stats().Queued; queued < 0.5 || queued > 1 {
				t.Errorf("renewals have waited for %v of their time-out", queued)
			}
			time.Sleep(shortLease)
			for i, a := range all {
				want := fmt.Sprintf("too busy for %d elections with a lease of %v", len(all), leases[i])
				if err := a.Check(); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("Check says %v", err)
				}
			}
			time.Sleep(100 * shortLease)
			for _, a := range all {
				must(t, a.Check())
				logs += a.Log.String()
			}
			for _, line := range []string{"renewals are late", "renewals are in time again"} {
				if n := strings.Count(logs, line); n != 1 {
					t.Errorf("%q is logged %d times", line, n)
				}
			}
		})
	}
}

// Regression: what renewals waited for a server that hung, or for a connection that was lost, was said to be the load of this
// process.
func TestHungServerIsNoOverload(t *testing.T) {
	for _, n := range []int{1, 3} {
		bubble(t, 1, func(t *testing.T, c *cluster) {
			q, all := c.Quorum("process"), []*candidate(nil)
			for i := range n {
				a := makeCandidate(t, q, "a", func(cfg *elector.Config) { cfg.Election = fmt.Sprint("election-", i) }).Begin(nil)
				a.Elected(3 * shortLease)
				all = append(all, a)
				time.Sleep(shortLease / 13)
			}
			for i := range 20 {
				time.Sleep(6 * shortLease)
				c.Hang(0)
				time.Sleep(shortLease * time.Duration(i+1) / 10)
				c.Nodes[0].Heal()
			}
			for range 100 {
				time.Sleep(shortLease / 17)
				c.Nodes[0].Swallow()
			}
			for _, a := range all {
				if strings.Contains(a.Log.String(), "too busy") {
					t.Errorf("one of %d elections says that the process is too busy", n)
				}
			}
		})
	}
}

// Regression: a node that refuses the renewals of a lease and grants the claims that take it back ended
// and began again in the log with every lease.
func TestNodeThatRefusesRenewalsIsLoggedOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Nodes[2].Deny("pexpire")
		a, _ := leading(c, "a")
		time.Sleep(20 * shortLease)
		if begins, ends := a.Log.Lines("redis node answered with an error"), a.Log.Lines("responds again"); len(begins) != 1 || len(ends) != 0 {
			t.Errorf("began %q, ended %q", begins, ends)
		}
		op := electionOf(c.Quorum("operator"), "orders")
		roll, err := op.Candidates(t.Context())
		if err != nil || len(roll) != 1 || len(roll[0].Nodes) != 3 || !roll[0].Healthy {
			t.Fatalf("%+v, %v", roll, err)
		}
		for i, n := range roll[0].Nodes {
			if refuses := strings.HasPrefix(n.Refusal, "ERR The user executing the script can't") && strings.Contains(n.Remedy, "ACL SETUSER default (~mandate:* ") && strings.Contains(n.Remedy, " +ping); "); refuses != (i == 2) {
				t.Errorf("node %d in its answer: %+v", i, n)
			}
		}
		c.Nodes[2].Deny()
		time.Sleep(2 * shortLease)
		if ends := a.Log.Lines("responds again", "127.0.0.1:7003"); len(ends) != 1 {
			t.Errorf("its end was logged as %q", ends)
		}
		if roll, err := op.Candidates(t.Context()); err != nil || roll[0].Nodes[2].Refusal != "" {
			t.Errorf("afterwards: %+v, %v", roll, err)
		}
	})
}

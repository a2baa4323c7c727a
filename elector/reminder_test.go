package elector_test

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A condition that lasts is logged again, ever less often, and its end says how long it was:
// the first line is out of sight when somebody looks.
func TestLongConditionIsLoggedAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		a := c.Start("a")
		a.Elected(3 * shortLease)
		time.Sleep(shortLease)
		for _, n := range c.Nodes[1:] {
			n.Set(down)
		}
		time.Sleep(shortLease/4 + 16*time.Minute) // within a quarter of a lease a renewal is due
		c.Heal()
		a.Elected(shortLease)
		time.Sleep(shortLease)
		for what, words := range map[string][]string{
			"the candidate": {"cannot campaign", "still unable to campaign", "can campaign again"},
			"the node":      {"redis node is not responding", "redis node still unresponsive", "redis node responds again"},
		} {
			of := map[string]int{"the candidate": 1, "the node": 2}[what]
			// After 10 s, a minute, and every five minutes.
			if n := len(a.Log.Lines(words[0])); n != of {
				t.Errorf("%s: begins %d times", what, n)
			}
			if n := len(a.Log.Lines(words[1], "for=")); n != 4*of {
				t.Errorf("%s: reminded of %d times", what, n)
			}
			if n := len(a.Log.Lines(words[2], "for=16m")); n != of {
				t.Errorf("%s: ends %d times", what, n)
			}
		}
	})
}

// So is a pause, and a probe that fails.
func TestPausedAndUnhealthyAreLoggedAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		seed := c.Start("seed")
		seed.Elected(3 * shortLease)
		time.Sleep(shortLease)
		op := electionOf(c.Quorum("operator"), "orders").As("ann")
		if err := op.Pause(t.Context(), 0, "migration"); err != nil {
			t.Fatal(err)
		}
		seed.Shutdown()
		w := &ward{}
		a := c.Start("a")
		b := c.Start("b", flaky(w)...)
		time.Sleep(shortLease)
		w.set(errors.New("disk full"))
		time.Sleep(16 * time.Minute)
		w.set(nil)
		time.Sleep(2 * shortLease)
		if err := op.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		first(t, shortLease, a, b)
		time.Sleep(shortLease)
		for _, l := range []struct {
			of    *candidate
			with  []string
			times int
		}{
			{a, []string{"election paused", `note="by ann: migration"`}, 1},
			{a, []string{"election still paused", `note="by ann: migration"`, "for="}, 5}, // after 10 s, a minute, and every five minutes
			{a, []string{"election resumed", "for=16m"}, 1},
			{b, []string{"level=WARN", `msg="unhealthy, not campaigning"`, "disk full"}, 1},
			{b, []string{"level=WARN", `msg="still unhealthy, cannot campaign"`, "disk full", "for="}, 4},
			{b, []string{"healthy again", "for=16m"}, 1},
		} {
			if n := len(l.of.Log.Lines(l.with...)); n != l.times {
				t.Errorf("%s: %d lines with %q, want %d", l.of.ID(), n, l.with, l.times)
			}
		}
	})
}

// The log tells a candidate's configuration, who leads, and what is worth a look; with units
// also as JSON, and no password.
func TestLogOfATerm(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		w := &ward{}
		a := c.Start("a", flaky(w)...)
		a.Elected(3 * shortLease)
		var lines bytes.Buffer
		b := c.Start("b", func(cfg *elector.Config) {
			cfg.Version = "v7"
			cfg.Logger = slog.New(slog.NewJSONHandler(&lines, nil))
		})
		b.Quiet(3 * shortLease)
		if lines := a.Log.Lines("msg=starting"); len(lines) != 1 || !strings.Contains(lines[0], "prefix=mandate lease=10s stop_margin=2.5s") {
			t.Errorf("%q", lines)
		}
		w.set(errors.New("disk full"))
		b.Elected(shortLease)
		time.Sleep(shortLease)
		if n := len(a.Log.Lines("level=WARN", "msg=stopping", "led_for=30s")); n != 1 {
			t.Errorf("the end of a term: %q", a.Log.Lines("stopping"))
		}
		w.set(nil)
		time.Sleep(2 * shortLease)
		if n := len(a.Log.Lines("new leader", "leader=b")); n != 1 {
			t.Errorf("who leads: %q", a.Log.Lines("leads"))
		}
		b.Shutdown()
		a.Elected(shortLease)
		got := lines.String()
		for _, want := range []string{`"msg":"starting"`, `"version":"v7"`, `"lease":"10s"`, `"msg":"new leader"`, `"leader":"a"`, `"level":"INFO","msg":"stopping"`} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in\n%s", want, got)
			}
		}
		if found := regexp.MustCompile(`"(led_for|for|at_most)":\d`).FindString(got); found != "" {
			t.Errorf("%s without a unit in\n%s", found, got)
		}
	})
}

// Regression: a node that refuses the renewals of a lease and grants the claims that take it back ended
// and began again in the log with every lease.
func TestNodeThatRefusesRenewalsIsLoggedOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Nodes[2].Deny("pexpire")
		a := c.Start("a")
		a.Elected(3 * shortLease)
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
			if refuses := strings.Contains(n.Refusal, "'pexpire'") && strings.Contains(n.Remedy, "ACL SETUSER default +pexpire"); refuses != (i == 2) {
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

// The same for 200 leases, and where no majority confirms a renewal, so that term follows term.
func TestRefusedRenewalsStayOneConditionInTheLog(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		refusing := c.Nodes[1:]
		for _, n := range refusing {
			n.Deny("pexpire")
		}
		a := c.Start("a")
		time.Sleep(200 * shortLease)
		if begins, ends := a.Log.Lines("redis node answered with an error"), a.Log.Lines("responds again"); len(begins) != len(refusing) || len(ends) != 0 {
			t.Errorf("began %q, ended %q", begins, ends)
		}
	})
}

package elector_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// No operator replaces another's pause without noticing; who did what is in the history.
func TestPauseOfAnotherOperatorStays(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		el := electionOf(c.Quorum("operator"), "orders")
		ann, bob, cyd := el.As("ann"), el.As("bob"), el.As("cyd")
		began := time.Now().Truncate(time.Millisecond)
		pausedBy := func(who, reason string, since time.Duration) {
			t.Helper()
			st, err := el.Status(t.Context())
			if err != nil || !st.Paused || st.PauseBy != who || st.PauseReason != reason || st.PauseSince.Sub(began) < since || st.PauseSince.Sub(began) > since+time.Second {
				t.Errorf("paused %v by %q (%s, %q) since %v, %v; want by %s (%s)", st.Paused, st.PauseBy, st.PauseReason, st.Pause, st.PauseSince.Sub(began), err, who, reason)
			}
		}
		if err := ann.Pause(t.Context(), time.Hour, "migration"); err != nil {
			t.Fatal(err)
		}
		pausedBy("ann", "migration", 0)
		time.Sleep(time.Minute)
		for _, other := range []*elector.Election{bob, el} {
			if err := other.Pause(t.Context(), 0, "mine"); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "paused already since 20") || !strings.Contains(err.Error(), "(by ann: migration)") {
				t.Errorf("replaced: %v", err)
			}
		}
		pausedBy("ann", "migration", 0)
		if err := ann.Pause(t.Context(), 0, "still"); err != nil { // one's own
			t.Error(err)
		}
		pausedBy("ann", "still", time.Minute)
		time.Sleep(time.Minute)
		if err := bob.ReplacePause(t.Context(), 0, ""); err != nil {
			t.Error(err)
		}
		pausedBy("bob", "", 2*time.Minute)
		time.Sleep(time.Minute)
		for range 2 { // the second one ends nothing
			if err := cyd.Resume(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := el.ReplacePause(t.Context(), time.Minute, ""); err != nil { // there is none
			t.Error(err)
		}
		if st, err := el.Status(t.Context()); err != nil || st.Pause != "no reason given" || st.PauseBy != "" || st.PauseReason != "" {
			t.Errorf("%+v, %v", st, err)
		}
		got, err := el.Pauses(t.Context())
		text := ""
		for _, p := range got {
			text += fmt.Sprintf("%s/%s/%v/%v/%s ", p.By, p.Reason, p.For, !p.Until.IsZero(), p.EndedBy)
		}
		if want := "//1m0s/false/ bob//0s/true/cyd ann/still/0s/true/bob ann/migration/1h0m0s/true/ann "; err != nil || text != want {
			t.Errorf("recorded %q, want %q, %v", text, want, err)
		}
	})
}

// A pause that only some nodes hold, as after an outage, or of two operators at once.
func TestPauseOfAnotherOperatorOnSomeNodes(t *testing.T) {
	for _, theirs := range []int{1, 2} {
		t.Run(fmt.Sprint(theirs), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				c.Seed()
				for _, n := range c.Nodes[:theirs] {
					_ = n.Server().Set("mandate:{orders}:pause", `{"by":"ann","reason":"old"}`)
				}
				err := electionOf(c.Quorum("operator"), "orders").As("bob").Pause(t.Context(), 0, "new")
				last, lastErr := c.Nodes[2].Server().Get("mandate:{orders}:pause")
				first, _ := c.Nodes[0].Server().Get("mandate:{orders}:pause")
				if first != `{"by":"ann","reason":"old"}` {
					t.Errorf("it was replaced by %s", first)
				}
				if theirs == 1 && (err == nil || errors.Is(err, elector.ErrRefused) || errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), "7001") || !strings.Contains(last, "bob")) {
					t.Errorf("%v; %s", err, last)
				}
				if theirs == 2 && (!errors.Is(err, elector.ErrRefused) || lastErr == nil) {
					t.Errorf("%v; %s is left", err, last)
				}
			})
		})
	}
}

// Two operators at once, with a node down: each is first on one node, so neither has a
// majority, and both are told so. Then together they must not have paused the election.
func TestPausesOfTwoOperatorsAtOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		el := electionOf(c.Quorum("operator"), "orders")
		c.Nodes[2].Set(down)
		if err := c.Nodes[0].Server().Set("mandate:{orders}:pause", `{"by":"ann","reason":"x"}`); err != nil { // she was first there
			t.Fatal(err)
		}
		if err := el.As("bob").Pause(t.Context(), 0, "y"); !errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), "by ann") {
			t.Errorf("bob: %v", err)
		}
		if st, err := el.Status(t.Context()); err != nil || st.Paused {
			t.Errorf("paused by nobody: %+v, %v", st, err)
		}
		if err := el.As("ann").Pause(t.Context(), 0, "x"); err == nil || errors.Is(err, elector.ErrUnreachable) || errors.Is(err, elector.ErrRefused) {
			t.Errorf("ann: %v", err)
		}
		got, err := el.Pauses(t.Context())
		if st, stErr := el.Status(t.Context()); err != nil || stErr != nil || !st.Paused || st.PauseBy != "ann" || len(got) != 1 {
			t.Errorf("%+v, %+v, %v, %v", st, got, err, stErr)
		}
	})
}

// An operator who can't change a pause must not end it by trying: where another's is in the
// way on one node, and another node is down for a moment, the old one holds on.
func TestFailedChangeOfAPauseEndsNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		el := electionOf(c.Quorum("operator"), "orders")
		for i, by := range []string{"ann", "bob", "bob"} {
			_ = c.Nodes[i].Server().Set("mandate:{orders}:pause", fmt.Sprintf(`{"by":%q,"reason":"old"}`, by))
		}
		c.Nodes[2].Set(down)
		if err := el.As("bob").Pause(t.Context(), time.Hour, "longer"); !errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("bob: %v", err)
		}
		if got, err := c.Nodes[1].Server().Get("mandate:{orders}:pause"); err != nil || !strings.Contains(got, "bob") {
			t.Errorf("the pause is %q, %v", got, err)
		}
	})
}

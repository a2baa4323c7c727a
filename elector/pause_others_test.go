package elector_test

import (
	"fmt"
	"testing"
	"time"
)

// A pause replaces the one before; who did what is in the history.
func TestPausesOfSeveralOperators(t *testing.T) {
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
		if err := ann.Pause(t.Context(), 0, "still"); err != nil {
			t.Error(err)
		}
		pausedBy("ann", "still", time.Minute)
		time.Sleep(time.Minute)
		if err := bob.Pause(t.Context(), 0, ""); err != nil {
			t.Error(err)
		}
		pausedBy("bob", "", 2*time.Minute)
		time.Sleep(time.Minute)
		for range 2 { // the second one ends nothing
			if err := cyd.Resume(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := el.Pause(t.Context(), time.Minute, ""); err != nil { // there is none
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

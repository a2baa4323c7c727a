package elector_test

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Pauses stand in the same stream as the terms: any number of them under one leader must not
// push its term out of the history, nor the moment when it began out of the status.
func TestHistoryBehindManyPauses(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(time.Second) // its report has arrived
		q := c.Quorum("op")
		el := electionOf(q, "orders")
		const pauses = 60
		for range pauses {
			if err := el.Pause(t.Context(), 0, "drill"); err != nil {
				t.Fatal(err)
			}
			if err := el.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		is := func(what string, got []elector.TermRecord, err error) {
			t.Helper()
			if err != nil || len(got) != 1 || got[0].Token != term.Token() || !got[0].Current || got[0].From.IsZero() {
				t.Errorf("%s: %+v, %v", what, got, err)
			}
		}
		for _, n := range []int{1, 10} {
			got, err := el.History(t.Context(), n)
			is("History", got, err)
		}
		if st, err := el.Status(t.Context()); err != nil || st.Leader == nil || st.Leader.Since.IsZero() {
			t.Errorf("%+v, %v", st.Leader, err)
		}
		for what, since := range map[string]time.Time{"all": {}, "since": time.Now().Add(-pauses * time.Second / 2), "since a moment ago": time.Now()} {
			one, err := el.Timeline(t.Context(), 10, since)
			is(what, one.Terms, err)
			if since.IsZero() && len(one.Pauses) != pauses {
				t.Errorf("%d pauses", len(one.Pauses))
			}
			many, err := q.Timeline(t.Context(), []string{"orders", "unknown"}, 10, since)
			is("of several, "+what, many.Terms, err)
		}

		// Vacant, and the last term is hidden behind the pauses of before the window.
		a.Shutdown()
		for range 5 {
			if err := el.Pause(t.Context(), 0, ""); err != nil {
				t.Fatal(err)
			}
			if err := el.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if got, err := el.History(t.Context(), 1); err != nil || len(got) != 1 || got[0].From.IsZero() || got[0].Lasted == 0 {
			t.Errorf("%+v, %v", got, err)
		}
		time.Sleep(time.Hour)
		got, err := q.Timeline(t.Context(), []string{"orders"}, 500, time.Now().Add(-time.Minute))
		if err != nil || len(got.Vacancies) != 1 || got.Vacancies[0].After.Token != term.Token() || len(got.Availability) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

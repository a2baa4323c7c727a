package elector_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A loop that is left leaves nothing behind: no goroutine, no subscription, no query.
// (The bubble fails when any goroutine stays, and synctest.Wait shows it at once.)
func TestObserveEndsWithItsLoop(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		a.Elected(3 * shortLease)
		for _, el := range []*elector.Election{a.Election(), electionOf(c.Quorum("operator"), "orders")} {
			for round := range 3 { // each loop begins anew
				var got []string
				for ev := range el.Observe(t.Context()) {
					got = append(got, ev.Kind)
					break
				}
				if !slices.Equal(got, []string{elector.EventElected}) {
					t.Errorf("loop %d: %v", round, got)
				}
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			for ev := range el.Observe(ended) {
				t.Errorf("after ctx had ended: %+v", ev)
			}
		}
		synctest.Wait()
		c.Each(frozen, "operator") // a query that hangs ends with the loop, too
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), shortLease)
		defer cancel()
		for ev := range electionOf(c.Quorum("operator"), "orders").Observe(ctx) {
			t.Errorf("no node answers: %+v", ev)
		}
		if took := time.Since(began); took != shortLease {
			t.Errorf("the loop ended %v after ctx", took-shortLease)
		}
	})
}

// Elections of one name in two namespaces have nothing to do with each other.
func TestNamespace(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		q := c.Quorum("operator")
		team := q.Namespace("team-a")
		if q.Prefix() != "mandate" || team.Prefix() != "team-a" || q.Namespace("").Prefix() != "mandate" {
			t.Errorf("%q, %q", q.Prefix(), team.Prefix())
		}
		c.Start("a").Elected(3 * shortLease)
		if _, err := electionOf(team, "orders").Leader(t.Context()); !errors.Is(err, elector.ErrNoLeader) {
			t.Errorf("the leader of another namespace: %v", err)
		}
		if names, err := team.Elections(t.Context()); err != nil || len(names) != 0 {
			t.Errorf("%q, %v", names, err)
		}
		for _, bad := range []string{"a b", "{p}"} {
			_, err := q.Namespace(bad).Election("orders")
			_, aserr := elector.New(q.Namespace(bad), elector.Config{Election: "orders"})
			if _, lerr := q.Namespace(bad).Elections(t.Context()); err == nil || aserr == nil || lerr == nil {
				t.Errorf("the prefix %q was taken: %v, %v, %v", bad, err, aserr, lerr)
			}
		}
	})
}

//go:build unix

package realtest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// What a Redis may refuse, and what an election does without: docs/redis.md has
// these as a table. INFO and CONFIG are not among the shipped rights.
func TestRealRestrictedRedis(t *testing.T) {
	t.Parallel()
	pubsub := []string{"&mandate:*", "+publish", "+subscribe", "+unsubscribe", "+ping"}
	for _, tc := range []struct {
		name       string
		denied     []string
		slow       bool // a release is found by the lease's end
		noMessages bool // no roll call, no handover
		blank      bool // no history
	}{
		{"INFO and CONFIG", nil, false, false, false},
		{"pub and sub", pubsub, true, true, false},
		{"NUMSUB", []string{"+pubsub|numsub"}, false, false, false},
		{"XADD", []string{"+xadd"}, false, false, true},
		{"all of them", append([]string{"+pubsub|numsub", "+xadd"}, pubsub...), true, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			has := slices.DeleteFunc(shipped(t, candidates), func(right string) bool { return slices.Contains(tc.denied, right) })
			s := guarded(t, candidates, has)
			el := newElectorate(t)
			a := el.join("a", as(t, candidates, s))
			_, term := el.next(0, el.lease+slack) // an election
			b := el.join("b", as(t, candidates, s))
			el.survives(term, el.lease) // renewals
			looksWithout(t, b.Q, term, tc.blank, tc.noMessages)

			began := time.Now() // a release
			a.shutdown()
			if err := b.leadsOrEnds(el.lease + slack); err != nil {
				t.Fatalf("the follower ended: %v", err)
			}
			if d := time.Since(began); !tc.slow && d > el.lease/2 {
				t.Errorf("the release was found after %v", d)
			}
			c := el.join("c", as(t, candidates, s))
			time.Sleep(el.lease / 4)
			_ = b.Q.Close() // a leader that is cut off: a takeover
			if err := c.leadsOrEnds(2*el.lease + slack); err != nil {
				t.Fatalf("the follower ended: %v", err)
			}
			for _, x := range []*candidate{a, c} {
				if tc.blank {
					servertest.Eventually(t, slack, "the missing right is logged", func() bool { return len(x.Log.Lines("cannot record history")) > 0 })
				}
				if logged := x.Log.Lines("cannot record history"); len(logged) > 1 || len(logged) == 1 && (!tc.blank || !strings.Contains(logged[0], "needs +xadd")) {
					t.Errorf("%s logged %d times that the history takes nothing: %q", x.ID(), len(logged), logged)
				}
				if logged := x.Log.Lines("needs +subscribe"); len(logged) > 1 || tc.noMessages != (len(logged) == 1) {
					t.Errorf("%s logged %d times that it may not subscribe: %q", x.ID(), len(logged), logged)
				}
			}
		})
	}
}

// looksWithout is what looking at an election still tells.
func looksWithout(t *testing.T, q *elector.Quorum, term *elector.Term, blank, noMessages bool) {
	t.Helper()
	if st, err := electionOf(q, "orders").Status(t.Context()); err != nil || st.Leader == nil || st.Leader.Token != term.Token() || st.Leader.Since.IsZero() != blank {
		t.Errorf("status: %+v, %v", st, err)
	}
	if terms, err := electionOf(q, "orders").History(t.Context(), 5); err != nil || (len(terms) == 0) != blank {
		t.Errorf("history: %+v, %v", terms, err)
	}
	found, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders"})
	for _, f := range found {
		if err != nil || f.Level == doctor.LevelFail {
			t.Errorf("doctor: %+v, %v", f, err)
		}
	}
	all, err := electionOf(q, "orders").Candidates(t.Context())
	if noMessages && (len(all) > 0 || !errors.Is(err, elector.ErrDenied)) || !noMessages && (len(all) != 2 || err != nil) {
		t.Errorf("roll call: %+v, %v", all, err)
	}
	if err := electionOf(q, "orders").Pause(t.Context(), time.Millisecond, ""); err != nil {
		t.Errorf("pause: %v", err)
	}
	servertest.Eventually(t, slack, "the pause ends", func() bool {
		st, err := electionOf(q, "orders").Status(t.Context())
		return err == nil && !st.Paused
	})
}

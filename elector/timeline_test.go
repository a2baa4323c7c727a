package elector_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A leader that is killed reports nothing: the next one knows for how long at most there was
// none, from the lease that it had seen, however long that term was.
func TestVanishedTermsHaveBounds(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all, term, op := trio(t, c)
		time.Sleep(20 * shortLease)
		killed := time.Now()
		crash(c, all[0])
		_, next := first(t, 2*shortLease, all[1], all[2])
		time.Sleep(shortLease) // its report has arrived
		got, err := electionOf(op, "orders").Timeline(t.Context(), 10, time.Time{})
		if err != nil || len(got.Terms) != 2 || len(got.Availability) != 1 || len(got.Vacancies) != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		without := next.Since().Sub(killed)
		was := got.Terms[1]
		// It waited for the end of that lease, so it had asked less than a lease and its
		// own spread (at most a quarter of one, on several nodes after a split vote) ago.
		if was.Reason != elector.ReasonVanished || was.Token != term.Token() || was.MaxGap < without || was.MaxGap > 2*shortLease {
			t.Errorf("%v without a leader; got at most %v: %+v", without, was.MaxGap, was)
		}
		if led := killed.Sub(was.From); was.MaxLasted < led || was.MaxLasted > led+2*shortLease {
			t.Errorf("it led for %v; got at most %v", led, was.MaxLasted)
		}
		if a := got.Availability[0]; a.Leaderless != 0 || a.MaxLeaderless != was.MaxGap || a.Terms != 2 {
			t.Errorf("%+v", a)
		}
		for _, x := range all[1:] {
			x.Shutdown()
		}
		time.Sleep(10 * time.Second)
		got, err = electionOf(op, "orders").Timeline(t.Context(), 1, time.Time{})
		if err != nil || len(got.Vacancies) != 1 || len(got.Terms) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		if v := got.Vacancies[0]; v.For < 10*time.Second || v.For > 11*time.Second || v.After.Reason != elector.ReasonShutdown || v.Paused {
			t.Errorf("%+v", v)
		}
	})
}

// Thousands of elections cost a round trip per hundred and node, not one each; a node that
// is away, and keys of another program, spoil nothing else.
func TestTimelineOfManyElections(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		const elections = 250
		names := make([]string, elections)
		now := time.Now()
		for i := range names {
			names[i] = fmt.Sprintf("e%03d", i)
			key := "mandate:{" + names[i] + "}:"
			for _, n := range c.Nodes {
				_ = n.Server().Set(key+"fence", "9")
				for j := range 3 {
					at := now.Add(-time.Duration(elections-i)*time.Minute + time.Duration(j)*time.Second)
					ev := fmt.Sprintf(`{"v":1,"kind":%q,"election":%q,"candidate":"a","token":%d,"reason":"resigned","time":%q}`,
						[]string{"elected", "released", "elected"}[j], names[i], []int{7, 7, 9}[j], at.Format(time.RFC3339Nano))
					if _, err := n.Server().XAdd(key+"history", fmt.Sprintf("%d-%d", at.UnixMilli(), j), []string{"event", ev}); err != nil {
						t.Fatal(err)
					}
				}
				if i%2 == 0 {
					_ = n.Server().Set(key+"lock", "a/INCARNATION/1 n=3 lease=10000 token=9")
				}
			}
		}
		_, _ = c.Nodes[0].Server().Lpush("mandate:{broken}:history", "x")
		_, _ = c.Nodes[1].Server().Lpush("mandate:{broken}:history", "x")
		q := c.Quorum("operator")
		const way = 100 * time.Millisecond
		c.Each(fault{Delay: way})
		asked := time.Now()
		got, err := q.Timeline(t.Context(), names, 10, time.Time{})
		if err != nil || len(got.Terms) != 2*elections || len(got.Vacancies) != elections/2 || len(got.Availability) != elections {
			t.Fatalf("%d terms, %d vacancies, %d sums, %v", len(got.Terms), len(got.Vacancies), len(got.Availability), err)
		}
		// Three round trips of all nodes at once, and those of the first connections.
		if took := time.Since(asked); took > 20*way {
			t.Errorf("it took %v", took)
		}
		c.Heal()
		for i := 1; i < len(got.Terms); i++ {
			if got.Terms[i].From.After(got.Terms[i-1].From) {
				t.Fatalf("row %d is newer than the one above", i)
			}
		}
		if first := got.Terms[0]; first.Election != "e249" || first.Current || first.Reason != elector.ReasonVanished {
			t.Errorf("the newest is %+v", first)
		}
		// Those of the last hour: the begin of a term that ended within it is read, too.
		since := now.Add(-time.Hour - time.Millisecond)
		got, err = q.Timeline(t.Context(), names, 10, since)
		recent := 0
		for _, r := range got.Terms {
			if r.From.IsZero() {
				t.Errorf("no begin: %+v", r)
			}
			if r.Election >= "e190" && !r.Current {
				recent++
			}
		}
		if err != nil || recent < 60 || len(got.Availability) != elections {
			t.Errorf("%d recent terms, %d sums, %v", recent, len(got.Availability), err)
		}
		c.Nodes[2].Set(down)
		got, err = q.Timeline(t.Context(), append(names, "broken", "unknown"), 10, time.Time{})
		if err == nil || errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), "1 of 252 elections could not be read") || len(got.Terms) != 2*elections {
			t.Errorf("%d terms, %v", len(got.Terms), err)
		}
		c.Each(down)
		if got, err = q.Timeline(t.Context(), names, 10, time.Time{}); !errors.Is(err, elector.ErrUnreachable) || len(got.Terms)+len(got.Vacancies) != 0 {
			t.Errorf("%d terms, %v", len(got.Terms), err)
		}
	})
}

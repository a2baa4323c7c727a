package elector_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A node has lost the leader's lock, and another one does not answer the observer: no
// majority shows the leader, and it leads all the same. It is not reported gone.
func TestObserverDoesNotReportALeaderGoneWhileNodesAreAway(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, term := leading(c, "a")
		events := watch(t, electionOf(c.Quorum("bystander"), "orders"))
		want(t, events, time.Second, elector.EventElected, "a", term.Token())
		c.Nodes[2].Set(cut, "bystander")
		for range 3 {
			time.Sleep(shortLease/4 + shortLease/7) // at different times after a renewal
			c.Nodes[1].Server().Del(lockKey)
			publish(c, "events", forge(elector.EventReleased, "ghost", "", term.Token())) // makes it look
		}
		time.Sleep(shortLease)
		if all := never(t, events, nil); len(all) > 0 || !term.Valid() {
			t.Errorf("while a leads (%v): %+v", term.Err(), all)
		}
	})
}

// A leader that no majority shows to this observer is neither gone nor confirmed: once the
// lease that was seen last has ended, whoever asks must not be sent to it.
func TestObserverDoesNotKnowTheLeaderOnceItsLeaseIsOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		term := c.Start("a").Elected(3 * shortLease)
		bystander := makeCandidate(t, c.Quorum("bystander"), "bystander")
		events := watch(t, bystander.Election())
		want(t, events, time.Second, elector.EventElected, "a", term.Token())
		c.Nodes[1].Set(cut, "a")
		c.Nodes[1].Server().Del(lockKey)
		c.Nodes[2].Set(cut, "bystander") // it reaches one node with the lock, and one without
		time.Sleep(shortLease / 2)
		if bystander.Stats().LeaderUnknown {
			t.Error("unknown while the lease that was seen runs on")
		}
		time.Sleep(shortLease)
		if !bystander.Stats().LeaderUnknown || !term.Valid() {
			t.Errorf("known without a majority that shows it, while a leads (%v)", term.Err())
		}
		c.Heal()
		time.Sleep(shortLease)
		if all := never(t, events, nil); len(all) > 0 || bystander.Stats().LeaderUnknown {
			t.Errorf("while a leads, unknown: %v, %+v", bystander.Stats().LeaderUnknown, all)
		}
	})
}

// A leader that has vanished is reported when its lock lapses, at whatever moment after a
// renewal it did: nobody publishes anything then.
func TestObserverReportsAVanishedLeaderWhenItsLockLapses(t *testing.T) {
	for phase := range 4 {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			a, term := leading(c, "a")
			events := watch(t, electionOf(c.Quorum("bystander"), "orders"))
			want(t, events, time.Second, elector.EventElected, "a", term.Token())
			time.Sleep(shortLease + time.Duration(phase)*shortLease/16)
			crash(c, a)
			for c.Locks() > 1 {
				time.Sleep(time.Millisecond)
			}
			want(t, events, 100*time.Millisecond, elector.EventVacant, "", term.Token())
		})
	}
}

// Regression: an observer that asked Redis in the moment of a release reported EventVacant,
// and then dropped the release with its reason.
func TestReleasesAreObservedWithTheirReason(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		bystander := makeCandidate(t, c.Quorum("bystander"), "bystander")
		outside := watch(t, bystander.Election())
		next(t, outside, time.Second)
		bad := map[string]int{}
		const rounds = 20
		for i := range rounds {
			a := makeCandidate(t, c.Quorum(fmt.Sprint("a", i)), "a")
			own := watch(t, a.Election())
			a.Begin(nil)
			term := a.Elected(3 * shortLease)
			want(t, outside, time.Second, elector.EventElected, "a", term.Token())
			time.Sleep(time.Duration(i) * 500 * time.Microsecond)
			a.Shutdown()
			for name, ch := range map[string]<-chan elector.Event{"outside": outside, "own": own} {
				for {
					ev := next(t, ch, 3*shortLease)
					if ev.Kind == elector.EventVacant && ev.Token != 0 {
						bad[name]++
						break
					}
					if ev.Kind == elector.EventReleased {
						break
					}
				}
			}
			for len(outside) > 0 {
				<-outside
			}
		}
		if len(bad) > 0 {
			t.Errorf("of %d releases reported as Vacant, without a reason: %v", rounds, bad)
		}
	})
}

// The heir's own election does not overtake the end of the term before, also in a loop whose body was busy when both came.
func TestHeirObservesTheEndBeforeItsElection(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		leader, _ := leading(c, "a0")
		for i := range 8 {
			heir := c.Start(fmt.Sprint("a", i+1))
			var got []string
			for ev := range heir.Election().Observe(t.Context()) {
				got = append(got, ev.Kind)
				if ev.Candidate == heir.ID() {
					break
				}
				if ev.Kind == elector.EventElected {
					time.Sleep(time.Millisecond)
					leader.Shutdown()
					heir.Elected(shortLease / 4)
				}
			}
			if want := []string{elector.EventElected, elector.EventReleased, elector.EventElected}; !slices.Equal(got, want) {
				t.Errorf("handover %d: %v", i, got)
			}
			leader = heir
		}
	})
}

// A loop that is left leaves nothing behind: no goroutine, no subscription, no query.
// (The bubble fails when any goroutine stays, and synctest.Wait shows it at once.)
func TestObserveEndsWithItsLoop(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, _ := leading(c, "a")
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

// A Redis whose clock was days ahead loses its data, and its clock is mended: tokens
// are lower from then on, and observers must not wait for them to catch up.
func TestObserversFollowTokensThatGoDown(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		srv := c.Nodes[0].Server()
		srv.SetTime(time.Now().Add(48 * time.Hour)) // TIME only: what the token comes from
		a, one := leading(c, "a", advertising)
		events := watch(t, electionOf(c.Quorum("bystander"), "orders"))
		want(t, events, time.Second, elector.EventElected, "a", one.Token())
		b := c.Start("b", advertising)
		b.Quiet(shortLease)
		crash(c, a)
		srv.FlushAll()
		srv.SetTime(time.Time{})
		// b remembers the token of before; a candidate that starts now does not.
		crash(c, b)
		d := c.Start("d", advertising)
		two := d.Elected(5 * shortLease)
		if two.Token() >= one.Token() {
			t.Fatalf("token %d after %d: nothing to see here", two.Token(), one.Token())
		}
		for {
			ev := next(t, events, 3*shortLease)
			if ev.Kind == elector.EventElected {
				if ev.Candidate != "d" || ev.Token != two.Token() || ev.Advertise != "d:80" {
					t.Errorf("%+v", ev)
				}
				break
			}
		}
		d.Shutdown()
		want(t, events, shortLease, elector.EventReleased, "d", two.Token())
	})
}

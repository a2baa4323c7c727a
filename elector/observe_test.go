package elector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/health"
)

// The reason of a term's end is in a message, and where the history can't be read only
// there. A reading that fails, because Redis is out of the observer's reach, must not lose
// it.
func TestObserverKeepsMessagesThroughAnOutage(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		events := watch(t, makeCandidate(t, c.Quorum("bystander"), "bystander"))
		want(t, events, time.Second, elector.EventElected, "a", term.Token())
		c.Each(fault{Up: testredis.Drop}, "bystander") // what is published arrives, and no request is answered
		a.Shutdown()
		time.Sleep(shortLease) // several readings have failed
		c.Nodes[0].Server().Del("mandate:{orders}:history")
		c.Heal()
		if ev := want(t, events, shortLease, elector.EventReleased, "a", term.Token()); ev.Reason != elector.ReasonShutdown {
			t.Errorf("%+v", ev)
		}
	})
}

// An observer in a candidate's process reports what this candidate does at once. An answer
// of Redis that was on its way meanwhile shows how things stood before: it changes nothing.
func TestObserverIgnoresAnswersOlderThanItsOwnNews(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		one := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease)
		events := watch(t, b)
		want(t, events, time.Second, elector.EventElected, "a", one.Token())
		time.Sleep(time.Second)
		var late atomic.Int32
		for _, nd := range c.Nodes {
			held := false
			nd.On(func(cl call, _ *server.Peer) bool {
				if cl.Script == "looked" && !held { // the nodes have read the lock, and answer later
					held = true
					late.Add(1)
					time.Sleep(300 * time.Millisecond)
				}
				return false
			})
		}
		publish(c, "events", forge(elector.EventElected, "a", "", one.Token())) // makes it look
		time.Sleep(50 * time.Millisecond)
		if int(late.Load()) != len(c.Nodes) {
			t.Fatalf("%d nodes were asked", late.Load())
		}
		a.Shutdown()
		two := b.Elected(100 * time.Millisecond)
		want(t, events, 100*time.Millisecond, elector.EventReleased, "a", one.Token())
		want(t, events, 100*time.Millisecond, elector.EventElected, "b", two.Token())
		if err := b.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, events, 100*time.Millisecond, elector.EventStopping, "b", two.Token())
		want(t, events, 100*time.Millisecond, elector.EventReleased, "b", two.Token())
		time.Sleep(shortLease / 2)
		if all := never(t, events, nil); len(all) > 0 {
			t.Errorf("after b's term: %+v", all)
		}
	})
}

// A node has lost the leader's lock, and another one does not answer the observer: no
// majority shows the leader, and it leads all the same. It is not reported gone.
func TestObserverDoesNotReportALeaderGoneWhileNodesAreAway(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		events := watch(t, makeCandidate(t, c.Quorum("bystander"), "bystander"))
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
		events := watch(t, bystander)
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

// A claim was granted, and its answer is lost: the lock names a candidate that does not know
// that it leads. Its own observer does not report it as the leader.
func TestObserverDoesNotReportAnUndecidedClaim(t *testing.T) {
	onAll(t, func(t *testing.T, c *cluster) {
		c.Seed()
		for _, nd := range c.Nodes {
			nd.LoseReply("claim", 1)
		}
		b := makeCandidate(t, c.Quorum("b"), "b")
		events := watch(t, b)
		want(t, events, time.Second, elector.EventVacant, "", 0)
		b.Begin(nil)
		for range 20 { // looks, before it claims again and after
			time.Sleep(10 * time.Millisecond)
			publish(c, "events", forge(elector.EventElected, "b", "", 1))
		}
		term := b.Elected(2 * shortLease)
		want(t, events, time.Second, elector.EventElected, "b", term.Token())
		time.Sleep(2 * shortLease)
		if all := never(t, events, nil); len(all) > 0 {
			t.Errorf("while b leads: %+v", all)
		}
	})
}

// A leader that has vanished is reported when its lock lapses, at whatever moment after a
// renewal it did: nobody publishes anything then.
func TestObserverReportsAVanishedLeaderWhenItsLockLapses(t *testing.T) {
	for phase := range 4 {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			a := c.Start("a")
			term := a.Elected(3 * shortLease)
			events := watch(t, makeCandidate(t, c.Quorum("bystander"), "bystander"))
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
		outside := watch(t, bystander)
		next(t, outside, time.Second)
		bad := map[string]int{}
		const rounds = 100
		for i := range rounds {
			a := makeCandidate(t, c.Quorum(fmt.Sprint("a", i)), "a")
			own := watch(t, a)
			a.Begin(nil)
			a.Elected(3 * shortLease)
			time.Sleep(time.Duration(i) * 100 * time.Microsecond)
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

// A node that hangs while an observer asks who leads must not hold back what this
// candidate does itself.
func TestObserverReceivesItsOwnCandidateAtOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		events := observe(t.Context(), a.Election())
		if ev := <-events; ev.Kind != elector.EventElected {
			t.Fatalf("%+v", ev)
		}
		elected, _ := json.Marshal(elector.Event{Version: 1, Kind: elector.EventElected, Election: "orders", Candidate: "x", Token: term.Token()})
		c.Nodes[0].Server().Publish("mandate:{orders}:events", string(elected)) // makes it ask
		time.Sleep(time.Millisecond)
		c.Nodes[0].Set(frozen, "a")
		time.Sleep(10 * time.Millisecond) // the question is open
		go func() { _ = a.Resign(context.Background()) }()
		time.Sleep(10 * time.Millisecond)
		select {
		case ev := <-events:
			if ev.Kind != elector.EventStopping {
				t.Errorf("%+v", ev)
			}
		default:
			t.Error("the end of the term is held back")
		}
	})
}

// What this candidate reports of itself on the channel is no news to its own observer: it must
// not make it more patient with the news of others.
func TestOwnTermsDoNotSlowTheObserver(t *testing.T) {
	const lease = 10 * time.Second
	bubble(t, 1, func(t *testing.T, c *cluster) {
		config := func(cfg *elector.Config) { cfg.Lease, cfg.Cooldown = lease, -1 }
		a := makeCandidate(t, c.Quorum("a"), "a", config)
		hears := make(chan struct{})
		go func() {
			for ev := range a.Election().Observe(t.Context()) {
				if ev.Kind == elector.EventElected && ev.Candidate == "b" {
					close(hears)
					return
				}
			}
		}()
		a.Begin(nil)
		a.Elected(lease)
		for range 10 {
			if err := a.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.Elected(lease)
			time.Sleep(30 * time.Millisecond)
		}
		b := makeCandidate(t, c.Quorum("b"), "b", config).Begin(nil)
		time.Sleep(50 * time.Millisecond)
		if _, err := a.Election().Transfer(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		b.Elected(lease)
		select {
		case <-hears:
		case <-time.After(20 * time.Millisecond):
			t.Error("b leads, and the observer beside a has not heard of it")
		}
	})
}

// An observer that was too slow for all that its own candidate did soon learns what became of the term that it
// reported last, although what it was told of it was left out.
func TestObserverLooksAfterWhatItSkipped(t *testing.T) {
	const lease = 10 * time.Second
	bubble(t, 1, func(t *testing.T, c *cluster) {
		var sick atomic.Bool
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) {
			cfg.Lease, cfg.Cooldown = lease, -1
			cfg.Probe = health.Func(func(context.Context) error {
				if sick.Load() {
					return errors.New("sick")
				}
				return nil
			})
			cfg.ProbeSettings = health.Settings{Interval: 10 * time.Millisecond, Timeout: 10 * time.Millisecond, Failures: 1, Successes: 1}
		}).Begin(nil)
		a.Elected(lease)
		next, events := make(chan struct{}), make(chan elector.Event, 1000)
		go func() {
			for ev := range a.Election().Observe(t.Context()) {
				events <- ev
				if ev.Kind == elector.EventStopping {
					<-next
				}
			}
		}()
		time.Sleep(time.Second)
		if err := a.Election().Pause(t.Context(), time.Minute, ""); err != nil { // it is not elected again
			t.Fatal(err)
		}
		for i := range 100 { // its first failure ends the term
			sick.Store(i%2 == 0)
			time.Sleep(30 * time.Millisecond)
		}
		close(next)
		time.Sleep(lease / 16)
		skipped := false
		for len(events) > 0 {
			ev := <-events
			skipped = skipped || ev.Kind == elector.EventSkipped
			if skipped && ev.Kind == elector.EventReleased {
				return
			}
		}
		t.Errorf("the end of the term is not reported (some were skipped: %v)", skipped)
	})
}

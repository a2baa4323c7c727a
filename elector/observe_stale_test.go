package elector_test

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// The reason of a term's end is in a message, and where the history can't be read only
// there. A reading that fails, because Redis is out of the observer's reach just then, must not lose it.
func TestObserverKeepsMessagesThroughAnOutage(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := c.start("a")
		term := a.elected(3 * shortLease)
		events := watch(t, makeCandidate(t, c.quorum("bystander"), "bystander"))
		want(t, events, time.Second, elector.EventElected, "a", term.Token())
		c.each(fault{up: drop}, "bystander") // what is published arrives, and no request is answered
		a.shutdown()
		time.Sleep(shortLease) // several readings have failed
		c.nodes[0].server().Del("mandate:{orders}:history")
		c.heal()
		if ev := want(t, events, shortLease, elector.EventReleased, "a", term.Token()); ev.Reason != elector.ReasonShutdown {
			t.Errorf("%+v", ev)
		}
	})
}

// An observer in a candidate's process reports what this candidate does at once. An answer
// of Redis that was on its way meanwhile shows the state of before: it changes nothing.
func TestObserverIgnoresAnswersOlderThanItsOwnNews(t *testing.T) {
	for _, n := range []int{1, 3} {
		bubble(t, n, func(t *testing.T, c *cluster) {
			a := c.start("a")
			one := a.elected(3 * shortLease)
			b := c.start("b")
			b.quiet(shortLease)
			events := watch(t, b)
			want(t, events, time.Second, elector.EventElected, "a", one.Token())
			// The observer reads now and then: one of its readings is answered late.
			for _, slow := range []time.Duration{50 * time.Millisecond, 400 * time.Millisecond, shortLease / 8} {
				c.each(fault{delay: slow}, "b")
				time.Sleep(shortLease)
			}
			c.heal()
			a.shutdown()
			two := b.elected(shortLease)
			want(t, events, shortLease, elector.EventReleased, "a", one.Token())
			want(t, events, shortLease, elector.EventElected, "b", two.Token())
			time.Sleep(3 * shortLease)
			if all := never(t, events, nil); len(all) > 0 {
				t.Errorf("while b leads: %+v", all)
			}
		})
	}
}

package elector_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// flood publishes a message on all nodes again and again, for d.
func (c *cluster) flood(channel string, every, d time.Duration, message func(i int) string) {
	for i := range int(d / every) {
		for _, nd := range c.nodes {
			nd.server().Publish("mandate:{orders}:"+channel, message(i))
		}
		time.Sleep(every)
	}
}

// Whoever repeats a release in favour of a ghost, more often than the seat is kept
// for it, put off the front row's next claim again and again, for ever.
func TestFoundForgedReleasesPutOffTheClaimForEver(t *testing.T) {
	for name, message := range map[string]func(token uint64) func(i int) string{
		"same term": func(token uint64) func(int) string {
			return func(int) string { return fmt.Sprint("released ", token, " !ghost") }
		},
		"next terms": func(token uint64) func(int) string {
			return func(i int) string { return fmt.Sprint("released ", token+uint64(i), " !ghost") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.start("a")
				term := a.elected(3 * shortLease)
				b := c.start("b")
				b.quiet(shortLease)
				c.each(cut, "a") // dies without a word
				go c.flood("wake", shortLease/10, 5*shortLease, message(term.Token()))
				b.elected(shortLease + 100*time.Millisecond)
				time.Sleep(5 * shortLease)
			})
		})
	}
}

// A forged release that names a follower made it claim with every message.
func TestFoundForgedReleaseForAnHeirDrivesClaims(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.start("a")
		term := a.elected(3 * shortLease)
		b := c.start("b")
		b.quiet(shortLease)
		all, err := c.quorum("operator").Candidates(t.Context(), "", "orders")
		if err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		forged, _ := json.Marshal(elector.Event{Version: 1, Kind: elector.Released, Election: "orders", Token: term.Token(), Next: all[1].Incarnation})
		began := time.Now()
		c.flood("events", 10*time.Millisecond, shortLease, func(int) string { return string(forged) })
		if claims, _ := c.nodes[0].claims(began); claims > 20 {
			t.Errorf("%d claims in one lease", claims)
		}
		b.quiet(time.Second)
	})
}

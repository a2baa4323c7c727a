package elector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A forged message must not make followers miss the release that comes after it: one
// that only asks Redis needs no more than a moment.
func TestForgedMessagesHideNoRelease(t *testing.T) {
	hour := uint64(time.Hour / time.Millisecond)
	for name, forged := range map[string]func(token uint64) (channel, message string){
		"elected":      func(token uint64) (string, string) { return "events", fmt.Sprint("1 elected ", token+hour, "  {}") },
		"the next one": func(token uint64) (string, string) { return "events", fmt.Sprint("1 elected ", token+1, "  {}") },
		"elected on events": func(token uint64) (string, string) {
			return "events", forge(elector.EventElected, "b0", "", token+hour)
		},
		"beyond all on events": func(uint64) (string, string) { return "events", forge(elector.EventElected, "b0", "", 1<<53-1) },
		"released":             func(token uint64) (string, string) { return "events", fmt.Sprint("1 released ", token+hour, "  {}") },
		"for a ghost": func(token uint64) (string, string) {
			return "events", fmt.Sprint("1 released ", token+hour, " !ghost {}")
		},
		"released on events": func(token uint64) (string, string) {
			return "events", forge(elector.EventReleased, "b0", "", token+hour)
		},
		"beyond all":             func(uint64) (string, string) { return "events", "1 released 9007199254740991  {}" },
		"the same term":          func(token uint64) (string, string) { return "events", fmt.Sprint("1 released ", token, " !ghost {}") },
		"an old one":             func(token uint64) (string, string) { return "events", fmt.Sprint("1 released ", token-1, "  {}") },
		"an old one's elected":   func(token uint64) (string, string) { return "events", fmt.Sprint("1 elected ", token, "  {}") },
		"old release, on events": func(token uint64) (string, string) { return "events", forge(elector.EventReleased, "x", "", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.Start("a")
				term := a.Elected(3 * shortLease)
				var rest []*candidate
				for i := range 3 {
					rest = append(rest, c.Start(fmt.Sprint("b", i)))
				}
				time.Sleep(shortLease + time.Second)
				for _, nodes := range [][]*node{c.Nodes[:1], c.Nodes} { // on one node, on all
					channel, message := forged(term.Token())
					for _, nd := range nodes {
						nd.Server().Publish("mandate:{orders}:"+channel, message)
					}
					time.Sleep(100 * time.Millisecond)
				}
				a.Stop()
				began := time.Now()
				_, next := first(t, 2*shortLease, rest...)
				// A claim that a message caused in vain is not repeated for a sixteenth of a lease.
				if gap := next.Since().Sub(began); gap > shortLease/16 {
					t.Errorf("%v without a leader", gap)
				}
			})
		})
	}
}

// What a forged message costs: a request of each of the few that go first, at most once
// in a sixteenth of a lease, however many there are.
func TestForgedMessagesCostFewClaims(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		const followers = 30
		for i := range followers {
			c.Start(fmt.Sprint("b", i))
		}
		time.Sleep(2*shortLease + time.Second) // between the claims that it would make anyway
		for _, message := range []string{
			fmt.Sprint("1 elected ", term.Token()+1, "  {}"), fmt.Sprint("1 released ", term.Token(), "  {}"), fmt.Sprint("1 released ", term.Token()+7, "  {}"),
		} {
			began := time.Now()
			publish(c, "events", message)
			time.Sleep(shortLease / 32)
			if claims, _ := claims(c.Nodes[0], began); claims > 16 {
				t.Errorf("%q: %d claims", message, claims)
			}
			began = time.Now()
			for range 100 {
				publish(c, "events", message)
				time.Sleep(shortLease / 100)
			}
			if claims, _ := claims(c.Nodes[0], began); claims > followers*2+16*16 {
				t.Errorf("%q, 100 times in a lease: %d claims", message, claims)
			}
		}
		if !term.Valid() {
			t.Error(term.Err())
		}
	})
}

// "Somebody leads" on the channel, again and again, while nobody does.
func TestForgedElectionsDelayNoCandidate(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		rest := []*candidate{c.Start("b"), c.Start("d")}
		time.Sleep(shortLease)
		crash(c, a)
		quit := make(chan struct{})
		defer close(quit)
		go func() {
			for i := term.Token() + 1; ; i++ {
				for _, nd := range c.Nodes {
					nd.Server().Publish("mandate:{orders}:events", forge(elector.EventElected, "ghost", "", i))
				}
				select {
				case <-quit:
					return
				case <-time.After(shortLease / 50):
				}
			}
		}()
		first(t, shortLease+shortLease/10, rest...)
	})
}

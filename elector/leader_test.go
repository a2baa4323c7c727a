package elector_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A term's end is announced in the background, a moment after its release. A candidate
// that is elected again within that moment must not announce its new term first: who
// follows the events, or reads the history, would take the old term for the newer one.
func TestTermsAreAnnouncedInOrder(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		const terms = 4
		n := 0
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.Cooldown = -1 })
		a.Begin(func(ctx context.Context, term *elector.Term) error {
			if n++; n < terms {
				term.Resign()
			}
			<-ctx.Done()
			return nil
		})
		time.Sleep(2 * shortLease)
		for i, node := range c.Nodes {
			entries, err := node.Server().Stream("mandate:{orders}:history")
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, e := range entries {
				ev, err := eventIn(e.Values[1])
				if err != nil {
					t.Fatal(err)
				}
				kinds = append(kinds, ev.Kind)
			}
			want := strings.TrimSuffix(strings.Repeat("elected released ", terms), " released ")
			if got := strings.Join(kinds, " "); got != want {
				t.Errorf("node %d: the history says %q, want %q", i+1, got, want)
			}
		}
	})
}

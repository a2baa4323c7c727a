package quorum

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// The version of redsync that is linked queries each node once, and decides by a majority, whatever the
// order in which its goroutines come and votes are missing.
func TestLinkedRedsyncWorks(t *testing.T) {
	for name, c := range map[string]struct {
		votes []bool // the nodes after these do not vote in time
		won   bool
	}{
		"all":              {[]bool{true, true, true}, true},
		"a majority":       {[]bool{true, false, true}, true},
		"all that came":    {[]bool{true, true}, true},
		"a minority":       {[]bool{false, true, false}, false},
		"too few":          {[]bool{true}, false},
		"none":             {nil, false},
		"refused by those": {[]bool{false, false}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for range 100 {
				var asked [3]atomic.Int32
				cast := make([]func(), 3)
				for i := range cast {
					cast[i] = func() { asked[i].Add(1) }
				}
				won := newRedlock("key", "value", time.Minute, cast).claim(t.Context(), func(vote func(int, bool)) {
					for node, v := range c.votes {
						vote(node, v)
					}
				})
				if won != c.won {
					t.Fatalf("won: %v", won)
				}
				for end := time.Now().Add(time.Second); asked[0].Load()*asked[1].Load()*asked[2].Load() == 0 && time.Now().Before(end); {
					time.Sleep(time.Millisecond) // redsync does not wait for the last one
				}
				if got := fmt.Sprint(asked[0].Load(), asked[1].Load(), asked[2].Load()); got != "1 1 1" {
					t.Fatalf("the nodes were asked %s times", got)
				}
			}
		})
	}
}

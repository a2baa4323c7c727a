package elector_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Of ten thousand elections in a process nearly all wait: each with a goroutine for the state
// machine, one for the work of a leader, and none for anything else.
func TestWaitingCandidatesHaveFewGoroutines(t *testing.T) {
	const elections = 20
	bubble(t, 3, func(t *testing.T, c *cluster) {
		leading, following := c.Quorum("a"), c.Quorum("b")
		begin := func(q *elector.Quorum, i int) *candidate {
			return makeCandidate(t, q, "candidate", func(cfg *elector.Config) { cfg.Election = fmt.Sprint("election-", i) }).Begin(nil)
		}
		before := ofCandidates()
		for i := range elections {
			begin(leading, i).Elected(2 * shortLease)
		}
		time.Sleep(shortLease / 16) // no renewal is due yet
		led := ofCandidates()
		for i := range elections {
			begin(following, i)
		}
		time.Sleep(shortLease / 16)
		followed := ofCandidates()
		if before != 0 || led != 2*elections || followed-led != elections {
			t.Errorf("%d goroutines before, %d for %d that lead, %d more for as many that follow", before, led, elections, followed-led)
		}
	})
}

// ofCandidates is how many goroutines are those of candidates.
func ofCandidates() (n int) {
	synctest.Wait()
	buf := make([]byte, 8<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, of := range []string{"elector.(*", "internal/peers.", "internal/standby.", "internal/quorum.", "mandate/health."} {
			if strings.Contains(g, of) {
				n++
				break
			}
		}
	}
	return n
}

package elector_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
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

// The state machine of a leader waits on 4 KiB: the garbage collector halves a stack of 8 KiB only where what waits
// on it needs less than 1250 bytes.
func TestLeadersWaitOnSmallStacks(t *testing.T) {
	if underRace() {
		t.Skip("the race detector's frames are larger: make mutants runs it without, in CI too")
	}
	const elections = 200
	bubble(t, 1, func(t *testing.T, c *cluster) {
		q := c.Quorum("a")
		begin := func(i int) {
			makeCandidate(t, q, "candidate", func(cfg *elector.Config) { cfg.Election = fmt.Sprint("election-", i) }).Begin(nil).Elected(2 * shortLease)
		}
		begin(elections) // with the connections
		before := stacks()
		for i := range elections {
			begin(i)
		}
		if each := (stacks() - before) / elections; each > 9<<10+512 {
			t.Errorf("%d bytes of stacks for each election that is led, want 4 KiB for the leader, up to 4 for its work, and a little", each)
		}
	})
}

// stacks is how many bytes the stacks of all goroutines have once the garbage collector has halved those that it can.
func stacks() int64 {
	synctest.Wait()
	for range 4 {
		runtime.GC()
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return int64(mem.StackInuse)
}

// underRace reports whether this test has the race detector.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
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

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

// The state machine of a candidate waits on 4 KiB, leading or following: the garbage collector halves a stack of 8 KiB only where
// what waits on it needs less than 1250 bytes.
func TestCandidatesWaitOnSmallStacks(t *testing.T) {
	if underRace() {
		t.Skip("the race detector's frames are larger")
	}
	const elections = 200
	each := func(t *testing.T, q *elector.Quorum, begun func(*candidate)) int64 {
		begin := func(i int) {
			begun(makeCandidate(t, q, "candidate", func(cfg *elector.Config) { cfg.Election = fmt.Sprint("election-", i) }).Begin(nil))
		}
		begin(elections) // with the connections
		before := stacks()
		for i := range elections {
			begin(i)
		}
		return (stacks() - before) / elections
	}
	bubble(t, 1, func(t *testing.T, c *cluster) {
		if n := each(t, c.Quorum("a"), func(a *candidate) { a.Elected(2 * shortLease) }); n > 9<<10+512 {
			t.Errorf("%d bytes of stacks for each election that is led, want 4 KiB for the leader, up to 4 for its work, and a little", n)
		}
		if n := each(t, c.Quorum("b"), func(*candidate) { time.Sleep(shortLease / 100) }); n > 5<<10 {
			t.Errorf("%d bytes of stacks for each election that is followed, want 4 KiB and a little", n)
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

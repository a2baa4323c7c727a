//go:build linux

package chaos

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/internal/servertest"
)

// A process that works beside the next term is seen, also for as long as a release takes.
func TestStormSeesOverlap(t *testing.T) {
	dir := t.TempDir()
	old, err := OpenSpan(dir, 1, "child")
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Worked(); err != nil {
		t.Fatal(err)
	}
	last, err := lastWorked(dir, 1, os.Getpid(), "child")
	if err != nil {
		t.Fatal(err)
	}
	next, err := OpenSpan(dir, 2, "main")
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Worked(); err != nil {
		t.Fatal(err)
	}
	for begin, want := range map[time.Duration]string{last - time.Millisecond: "were both valid for 1ms", last + 1: ""} {
		journal := []Record{
			{Kind: Beside, At: last - time.Second, Who: "a", PID: os.Getpid(), Token: 1, Value: "child", Command: true},
			{Kind: Begin, At: begin, Who: "b", PID: os.Getpid(), Token: 2, Value: "main", Command: true},
		}
		all, err := withSpans(dir, journal)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(checkTerms(all, Promise{}).Violations, "\n")
		if !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A real release after a crash is seen where a test believes that nothing may release.
func TestChaosStormSeesARelease(t *testing.T) {
	s := &storm{t: t, mandate: buildMandate(t), spawn: newSpawner(t), servers: servertest.RedisN(t, 1)}
	l := newLane(s, "seen", laneKind{lease: shortLease}, rand.New(rand.NewPCG(1, 1)))
	l.start()
	l.start()
	leader, ok := l.awaitBegin(0)
	if ok {
		_, after := l.strike(leader, strike{1, "worker", true, killLeader})
		_, ok = l.awaitBegin(leader.Token)
		after()
	}
	r := l.end()
	if got := strings.Join(r.Violations, "\n"); !ok || r.Kept != 1 || !strings.Contains(got, "although nothing could release") {
		t.Errorf("%v, %d kept: %q", ok, r.Kept, got)
	}
}

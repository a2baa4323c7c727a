package simtest

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

var (
	firstFlag  = flag.Uint64("sim.first", 1, "the first seed of TestSimulation")
	runsFlag   = flag.Int("sim.runs", 2, "how many seeds TestSimulation runs")
	alsoFlag   = flag.String("sim.also", "", "a name, such as a commit's, that gives one more seed")
	leasesFlag = flag.Float64("sim.leases", 40, "how long the faults of a seed last, in leases")
)

// TestMain keeps go-redis from printing every refused connection. miniredis makes a Lua
// state for every script: less collecting gives more virtual hours.
func TestMain(m *testing.M) {
	logging.Disable()
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}

// optionsOf is all that a seed decides.
func optionsOf(seed uint64) Options {
	o := Options{Seed: seed, Leases: *leasesFlag}
	switch seed % 8 {
	case 3, 6:
		o.Mode = WallHints
	case 7:
		o.Mode = TokensOnly
	}
	if seed%4 == 2 {
		o.Shards = 12
	}
	return o
}

// seeds are those that the flags select.
func seeds() (all []uint64) {
	for i := range *runsFlag {
		all = append(all, *firstFlag+uint64(i))
	}
	if *alsoFlag != "" {
		h := fnv.New32a()
		_, _ = h.Write([]byte(*alsoFlag))
		all = append(all, 1e9+uint64(h.Sum32()))
	}
	return all
}

// TestSimulation runs the same seeds every time unless told otherwise: a change
// is judged by what it changes.
func TestSimulation(t *testing.T) {
	all, sum := seeds(), &totals{began: time.Now()}
	var next atomic.Int64
	t.Run("bubbles", func(t *testing.T) { // it ends when all of them have
		for i := range min(len(all), runtime.GOMAXPROCS(0)) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for n := next.Add(1) - 1; n < int64(len(all)); n = next.Add(1) - 1 {
					r := Run(t, optionsOf(all[n]))
					complain(t, r)
					sum.add(r)
				}
			})
		}
	})
	t.Logf("seeds %v: %s", all, sum)
	if len(sum.violations) > 0 { // whoever sees the end of a log alone must learn which seed
		t.Errorf("broken invariants (above: how it came to them):\n  %s", strings.Join(sum.violations, "\n  "))
	}
}

// complain shows how a seed broke invariants, with all that happened before.
func complain(t *testing.T, r Report) {
	t.Helper()
	if len(r.Violations) > 0 {
		t.Errorf("seed %d (%s, %d nodes, %d hosts, lease %v) breaks invariants:\n  %s\nreplay: go test ./elector/proof/internal/simtest -run 'TestSimulation$' -sim.first=%d -sim.runs=1 -sim.leases=%v\nhistory:\n  %s",
			r.Seed, r.Mode, r.Nodes, r.Hosts, r.Lease, strings.Join(r.Violations, "\n  "), r.Seed, r.Leases, strings.Join(r.History, "\n  "))
	}
}

// TestCheckerNotices breaks what the design relies on, from outside, and wants
// to hear of it: a checker that can't fail proves nothing.
func TestCheckerNotices(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"all nodes' clocks run 40 % fast", Options{Seed: 3, NodeRate: 0.4, Nodes: 3}, "hold its lock"},
		{"an operator deletes the lock everywhere", Options{Seed: 4, Nodes: 3, Sabotage: deleteLocks}, "valid terms at once"},
		{"the fence goes back", Options{Seed: 7, Mode: WallHints, Nodes: 3, Sabotage: lowerFence}, "is lower than"},
		{"all nodes forget, and don't abstain", Options{Seed: 6, Nodes: 5, Sabotage: forgetAll}, "valid terms at once"},
		{"an operator deletes the locks of shards", Options{Seed: 4, Nodes: 3, Shards: 12, Sabotage: deleteLocks}, "valid owners of shard"},
		{"a probe's passes are not what they seem", Options{Seed: 7, Nodes: 1, Sabotage: staleProbe}, "probe last passed"},
		{"a host's clocks stand still", Options{Seed: 8, Nodes: 1, Sabotage: stopClocks}, "after its deadline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Leases, c.o.Until = 60, c.want
			r := Run(t, c.o)
			if all := strings.Join(r.Violations, "\n"); !strings.Contains(all, c.want) {
				t.Errorf("want a violation with %q, got:\n%s", c.want, all)
			}
			t.Logf("after %.1f leases", r.Virtual.Seconds()/r.Lease.Seconds())
		})
	}
}

// totals add up what simulations did.
type totals struct {
	mu                             sync.Mutex
	began                          time.Time
	worst, virtual                 time.Duration // worst: the longest recovery, for a lease of one second
	seeds, terms, renewals, faults int
	lasted                         float64 // all of it, in leases
	violations                     []string
}

func (s *totals) add(r Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeds, s.terms, s.renewals, s.faults = s.seeds+1, s.terms+r.Terms, s.renewals+r.Renewals, s.faults+r.Faults
	s.virtual += r.Virtual
	s.lasted += r.Virtual.Seconds() / r.Lease.Seconds()
	s.worst = max(s.worst, time.Duration(float64(r.Recovery)/r.Lease.Seconds()))
	for _, v := range r.Violations {
		s.violations = append(s.violations, fmt.Sprintf("seed %d (%s): %s", r.Seed, r.Mode, v))
	}
}

func (s *totals) String() string {
	return fmt.Sprintf("%d seeds, %.0f virtual hours, %.0f leases, %d terms, %d renewals, %d faults in %v on %d cores (%s/%s, %s); slowest recovery after the faults: %.2f leases; violations: %d",
		s.seeds, s.virtual.Hours(), s.lasted, s.terms, s.renewals, s.faults, time.Since(s.began).Round(time.Second), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), s.worst.Seconds(), len(s.violations))
}

// deleteLocks is an operator's DEL while a leader sits.
func deleteLocks(s *Sim) {
	if s.chance(100) != 0 {
		return
	}
	for _, n := range s.nodes {
		n.Server().Del(s.keys.Lock)
		for i := range s.o.Shards {
			n.Server().Del(s.group.shards[i].keys.Lock)
		}
	}
	s.history.addf("sabotage: locks deleted")
}

// forgetAll takes the locks and the markers that would make the nodes abstain.
func forgetAll(s *Sim) {
	if s.chance(100) == 0 {
		for _, n := range s.nodes {
			n.Server().FlushAll()
			_ = n.Server().Set(s.keys.Fence, strconv.FormatInt(time.Now().UnixMilli(), 10))
		}
		s.history.addf("sabotage: everything deleted but the counters")
	}
}

// lowerFence makes nodes hand out old tokens again, where the hint of the
// claim does not help: its clock is behind.
func lowerFence(s *Sim) {
	if s.chance(8) == 0 {
		for _, n := range s.nodes {
			_ = n.Server().Set(s.keys.Fence, "5")
		}
		for _, h := range s.hosts {
			h.proc.Load().warp.Wall.Add(-int64(time.Minute))
		}
		s.history.addf("sabotage: counters and clocks set back")
	}
}

// staleProbe makes the checker believe that probes passed long ago.
func staleProbe(s *Sim) {
	if s.chance(100) == 0 {
		for _, h := range s.hosts {
			h.proc.Load().probe.pass.Add(-int64(s.t.lease * 2))
		}
	}
}

// stopClocks holds all clocks of all hosts back, the boot clock too: what no
// process can notice from inside.
func stopClocks(s *Sim) {
	for _, h := range s.hosts {
		w := h.proc.Load().warp
		for _, c := range []interface{ Add(int64) int64 }{&w.Mono, &w.Wall, &w.Boot} {
			c.Add(-int64(s.t.lease / 140))
		}
	}
}

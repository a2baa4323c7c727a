// Package simtest runs a whole cluster in one testing/synctest bubble: Redis
// nodes (miniredis), the network between, and candidates that are the real
// Elector with the real go-redis below it. A seed makes a schedule of faults:
// connections, nodes, clocks, probes, work. A checker that sees true time (the
// bubble's) and the actual state of every node watches the invariants of the design at
// every step and at every event; in a quiet end the faults are healed and
// liveness is checked.
//
// Every candidate also observes the election: whomever it names must be one whom a
// majority of the nodes had, with that token and address. Messages are forged that
// could be true, also in the quiet end; they must neither be reported nor leave the
// election without a leader for longer.
//
// In a quarter of the seeds the processes are the members of a group of 12 shards
// instead (see group). Each shard is an election, and requests of all travel
// together. A shard has at most one valid owner, and its tokens grow.
//
// One seed is one schedule. The order in which goroutines run at the same
// instant, and the electors' own random pauses, are not part of it, so a
// failure that depends on them may need a few runs of its seed.
//
// What the simulation can't bend: timers run on while a candidate is paused or
// suspended (they fire, but what looks at the clock or at the network
// blocks), and the handshake of a connection never fails halfway (see conn).
package simtest

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

const election = "sim"

// Sim is one cluster.
type Sim struct {
	o          Options
	t          timing
	keys       protocol.Keys
	start      time.Time
	history    *history
	set        *testredis.Set
	netMu      sync.Mutex // of the links' faults
	nodes      []*node
	hosts      []*host
	group      *group // nil: a single election
	succession string
	extra      sync.WaitGroup // goroutines of faults
	forging    atomic.Bool    // in the quiet end
	forger     *rand.Rand     // of the goroutine of run: in the quiet end

	rngMu sync.Mutex
	rng   *rand.Rand // for what is decided while it runs

	mu      sync.Mutex // of the actual state: terms, pauses
	procs   []*proc
	born    []*proc // all that ever were
	terms   []*record
	quiet   bool           // the faults are over
	batches int            // calls for several elections
	kinds   map[string]int // of violations
	seen    Report         // its Faults are of the goroutine of run
}

// Run simulates in a bubble of its own and reports; it fails t only for what
// keeps it from working.
func Run(t *testing.T, o Options) (r Report) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		s := newSim(o)
		s.run()
		r = s.report()
	})
	return r
}

func newSim(o Options) *Sim {
	dice := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, stream)) }
	plan := dice(1)
	s := &Sim{
		o: o, keys: protocol.KeysOf("mandate", election), start: time.Now(), history: &history{start: time.Now()},
		rng: dice(2), forger: dice(9), t: timings(plan, o.Lease),
		kinds: map[string]int{},
	}
	s.succession = []string{
		"", "", elector.SuccessionPriority, elector.SuccessionSeniority, elector.SuccessionSeniority, // as often as a race
	}[dice(5).IntN(5)]
	if o.Shards > 0 {
		s.group = newGroup(o.Shards)
		s.t = timings(dice(12), max(s.t.lease, 500*time.Millisecond))
		s.t.stopMargin = s.t.lease / 4 // a member's is the default
	}
	if s.o.Nodes == 0 {
		s.o.Nodes = []int{1, 3, 3, 3, 5}[plan.IntN(5)]
	}
	s.set = testredis.New(s.o.Nodes)
	for i := range s.o.Nodes {
		rate := (plan.Float64() - 0.5) * 0.009
		if o.NodeRate != 0 {
			rate = o.NodeRate
		}
		s.nodes = append(s.nodes, s.newNode(s.set.Nodes[i], rate))
	}
	for i := range 2 + plan.IntN(3) {
		s.hosts = append(s.hosts, s.newHost(i, (plan.Float64()-0.5)*0.008))
	}
	s.seen = Report{Options: s.o, Lease: s.t.lease, Hosts: len(s.hosts)}
	return s
}

func (s *Sim) run() {
	steps := s.schedule(rand.New(rand.NewPCG(s.o.Seed, 4)))
	s.history.addf("seed %d, %s, %d nodes, %d hosts, %d shards, lease %v, stop margin %v, succession %q",
		s.o.Seed, s.o.Mode, len(s.nodes), len(s.hosts), s.o.Shards, s.t.lease, s.t.stopMargin, s.succession)
	for _, h := range s.hosts {
		h.boot("")
	}
	for _, st := range steps {
		if s.found() {
			break
		}
		s.until(s.start.Add(st.at))
		s.history.addf("%s", st.name)
		s.seen.Faults++
		st.do(s)
		synctest.Wait()
		s.look()
	}
	s.until(s.start.Add(s.storm()))
	s.healAll()
	switch {
	case s.found():
	case s.group != nil:
		s.settleGroup()
	default:
		s.settle()
	}
	s.halted()
	s.close()
}

// storm is how long the faults last.
func (s *Sim) storm() time.Duration { return time.Duration(s.o.Leases * float64(s.t.lease)) }

// until lets time pass, and looks every now and then.
func (s *Sim) until(at time.Time) {
	for {
		left := time.Until(at)
		if left <= 0 || s.found() {
			return
		}
		time.Sleep(min(left, s.t.lease/400+s.share(s.t.lease/100)))
		s.tick()
	}
}

// found reports whether the violation that was waited for has come.
func (s *Sim) found() bool {
	if s.o.Until == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.seen.Violations, func(v string) bool { return strings.Contains(v, s.o.Until) })
}

// tick is one step of the checker, and of the clocks that run at another rate. When
// all faults are over, plausible messages are still forged.
func (s *Sim) tick() {
	if s.forging.Load() && s.forger.IntN(60) == 0 {
		s.forge(s.forger)
	}
	for _, n := range s.nodes {
		n.drift()
		n.Took() // nobody reads its record of calls
	}
	for _, h := range s.hosts {
		h.drift()
	}
	if s.o.Sabotage != nil {
		s.o.Sabotage(s)
	}
	synctest.Wait()
	s.look()
}

// close ends everything; the bubble notices what is left.
func (s *Sim) close() {
	s.change(func() {
		for _, n := range s.nodes {
			n.up = false
		}
	})
	s.extra.Wait()
	synctest.Wait() // go-redis dials in goroutines that nothing waits for: not into a node that is being closed
	for _, n := range s.nodes {
		_ = n.admin.Close()
	}
	s.set.Close()
}

func (s *Sim) report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group != nil && s.batches == 0 {
		s.violate("no requests of two elections have travelled together")
	}
	s.seen.Virtual = time.Since(s.start)
	return s.seen
}

// violate notes a violation, the first few of each kind. s.mu is held.
func (s *Sim) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.history.addf("VIOLATION %s", text)
	if len(s.seen.Violations) == 0 {
		s.seen.History = s.history.last()
	}
	s.kinds[format]++
	if s.kinds[format] <= 3 {
		s.seen.Violations = append(s.seen.Violations, fmt.Sprintf("%.4fs %s", time.Since(s.start).Seconds(), text))
	}
}

// fault is violate for who does not hold s.mu.
func (s *Sim) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violate(format, args...)
}

// chance draws from the simulation's dice.
func (s *Sim) chance(n int) int {
	s.rngMu.Lock()
	defer s.rngMu.Unlock()
	return s.rng.IntN(n)
}

// share is a random part of d.
func (s *Sim) share(d time.Duration) time.Duration {
	s.rngMu.Lock()
	defer s.rngMu.Unlock()
	return time.Duration(s.rng.Int64N(int64(d) + 1))
}

// history keeps the last lines of what happened.
type history struct {
	mu    sync.Mutex
	start time.Time
	lines []string
}

const historyLines = 400

func (h *history) addf(format string, args ...any) {
	line := fmt.Sprintf("%10.4fs ", time.Since(h.start).Seconds()) + fmt.Sprintf(format, args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.lines) >= 2*historyLines {
		h.lines = append([]string(nil), h.lines[historyLines:]...)
	}
	h.lines = append(h.lines, line)
}

func (h *history) last() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lines[max(0, len(h.lines)-historyLines):]...)
}

// Write takes the electors' log lines.
func (h *history) Write(b []byte) (int, error) {
	h.addf("    log %s", strings.TrimSpace(string(b)))
	return len(b), nil
}

func (h *history) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(h, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == "election" {
				return slog.Attr{}
			}
			return a
		},
	}))
}

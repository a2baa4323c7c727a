package simtest

import (
	"fmt"
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
)

const election = "sim"

// Sim is one cluster.
type Sim struct {
	o          Options
	t          timing
	keys       protocol.Keys
	start      time.Time
	history    *history
	net        *network
	nodes      []*node
	hosts      []*host
	succession elector.Succession
	extra      sync.WaitGroup // goroutines of faults
	warming    sync.WaitGroup // Config.Warm, which may outlive Run
	operators  *elector.Quorum
	operator   *elector.Election // past all faults; nil: without Options.Deploys
	deathRng   *rand.Rand        // of the goroutine of run
	forging    atomic.Bool       // in the quiet end

	rngMu sync.Mutex
	rng   *rand.Rand // for what is decided while it runs

	mu           sync.Mutex // of the actual state: terms, pauses, the register
	procs        []*proc
	born         []*proc // all that ever were
	terms        []*record
	highest      uint64 // of the fenced register
	writer       *record
	quiet        bool
	retiring     bool // no faults, and the only ends are shutdowns
	recovered    time.Duration
	renewals     int
	beside       []*beside    // the other elections
	group        *group       // nil: a single election
	batches      map[kind]int // calls for several elections
	refused      int          // writes of superseded terms
	ends         map[string]int
	faults       map[string]int // of the goroutine of run
	kinds        map[string]int // of violations
	broken       []string
	snapshot     []string
	attempts     map[string]*attempt // all that ever held a lock
	top          string              // the version of the newest term of a candidate that refuses downgrades
	operated     time.Time           // when an operator last allowed or refused older versions
	versionTerms int                 // of candidates that refuse downgrades
	warmed       int                 // how often one began to get warm
	forgeries    int                 // plausible messages that were forged
	forger       *rand.Rand          // of the goroutine of run: in the quiet end
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
	plan := rand.New(rand.NewPCG(o.Seed, 1))
	s := &Sim{
		o: o, keys: protocol.KeysOf("mandate", election), start: time.Now(), history: &history{start: time.Now()},
		rng: rand.New(rand.NewPCG(o.Seed, 2)), attempts: map[string]*attempt{}, forger: rand.New(rand.NewPCG(o.Seed, 9)), ends: map[string]int{}, faults: map[string]int{}, kinds: map[string]int{}, batches: map[kind]int{},
	}
	s.net = &network{rng: rand.New(rand.NewPCG(o.Seed, 3)), conns: map[*conn]struct{}{}}
	s.t = timings(plan, o.Lease)
	s.succession = []elector.Succession{
		elector.SuccessionRace, elector.SuccessionRace, elector.SuccessionPriority, elector.SuccessionSeniority, elector.SuccessionRotation,
	}[rand.New(rand.NewPCG(o.Seed, 5)).IntN(5)]
	for i := range o.Beside {
		s.beside = append(s.beside, newBeside(i))
	}
	if o.Shards > 0 {
		s.beGroup(rand.New(rand.NewPCG(o.Seed, 12)))
	}
	n := o.Nodes
	if n == 0 {
		n = []int{1, 3, 3, 3, 5}[plan.IntN(5)]
	}
	s.o.Nodes = n
	for i := range n {
		rate := (plan.Float64() - 0.5) * 0.009
		if o.NodeRate != 0 {
			rate = o.NodeRate
		}
		s.nodes = append(s.nodes, newNode(i, rate))
	}
	if s.o.Deploys {
		s.openOperator()
		s.deathRng = rand.New(rand.NewPCG(o.Seed, 22))
		s.t.warmTimeout = []time.Duration{s.t.lease / 4, s.t.lease / 2, s.t.lease}[s.deathRng.IntN(3)]
	}
	hosts := 2 + plan.IntN(3)
	if s.group != nil {
		hosts = s.group.members
	}
	for i := range hosts {
		s.hosts = append(s.hosts, s.newHost(i, (plan.Float64()-0.5)*0.008))
	}
	return s
}

// storm is how long the faults last.
func (s *Sim) storm() time.Duration { return time.Duration(s.o.Leases * float64(s.t.lease)) }

func (s *Sim) run() {
	var steps []step
	if s.group != nil {
		steps = s.scheduleGroup(rand.New(rand.NewPCG(s.o.Seed, 4)))
	} else {
		steps = s.schedule(rand.New(rand.NewPCG(s.o.Seed, 4)))
	}
	s.history.addf("seed %d, %s, %d nodes, %d hosts, lease %v, stop margin %v, succession %q",
		s.o.Seed, s.o.Mode, len(s.nodes), len(s.hosts), s.t.lease, s.t.stopMargin, s.succession)
	for _, h := range s.hosts {
		h.boot("")
	}
	end := s.start.Add(s.storm())
	for _, st := range steps {
		if s.found() {
			break
		}
		s.until(s.start.Add(st.at))
		s.history.addf("%s", st.name)
		if st.kind != "" {
			s.faults[st.kind]++
		}
		st.do(s)
		synctest.Wait()
		s.look()
	}
	s.until(end)
	if s.found() || s.o.StormOnly {
		s.healAll()
		s.halted()
	} else if s.group != nil {
		s.settleGroup()
	} else {
		s.settle()
	}
	s.close()
}

// until lets time pass, and looks every now and then.
func (s *Sim) until(at time.Time) {
	for {
		left := time.Until(at)
		if left <= 0 || s.found() {
			return
		}
		s.rngMu.Lock()
		step := s.t.lease/400 + time.Duration(s.rng.Int64N(int64(s.t.lease/100)))
		s.rngMu.Unlock()
		time.Sleep(min(left, step))
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
	return slices.ContainsFunc(s.broken, func(v string) bool { return strings.Contains(v, s.o.Until) })
}

// tick is one step of the checker, and of the clocks that run at another rate. When
// all faults are over, plausible messages are still forged.
func (s *Sim) tick() {
	if s.forging.Load() && s.forger.IntN(60) == 0 {
		s.forge(s.forger)
	}
	for _, n := range s.nodes {
		n.drift()
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
	s.net.closed.Store(true)
	s.net.reset(func(*conn) bool { return true })
	s.extra.Wait()
	s.warming.Wait()
	if s.o.Deploys {
		_ = s.operators.Close()
	}
	synctest.Wait() // go-redis dials in goroutines that nothing waits for: not into a node that is being closed
	for _, n := range s.nodes {
		n.close()
	}
}

func (s *Sim) report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.history.accused() {
		s.violate("a list of nodes that is the same is taken for another: %s", line)
	}
	s.faults["plausible message, each"] = s.forgeries
	batches, besideTerms := s.reportBeside()
	shardTerms, moves := s.groupReport()
	r := Report{
		Options: s.o, Lease: s.t.lease, Hosts: len(s.hosts), Virtual: time.Since(s.start), Terms: len(s.terms),
		ShardTerms: shardTerms, Moves: moves, Renewals: s.renewals, Batches: batches, BesideTerms: besideTerms, Versions: s.versionTerms, Warmed: s.warmed, Refused: s.refused, Recovery: s.recovered, Ends: s.ends, Faults: s.faults, Violations: s.broken, History: s.snapshot,
	}
	return r
}

// violate notes a violation, the first few of each kind. s.mu is held.
func (s *Sim) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.history.addf("VIOLATION %s", text)
	if len(s.broken) == 0 {
		s.snapshot = s.history.last()
	}
	s.kinds[format]++
	if s.kinds[format] <= 3 {
		s.broken = append(s.broken, fmt.Sprintf("%.4fs %s", time.Since(s.start).Seconds(), text))
	}
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

//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/internal/servertest"
)

// stormKills is how many leaders are killed unless CHAOSKILLS has another number, or stormTime has passed
// on one list of servers.
const (
	stormKills = 1000
	stormTime  = 40 * time.Second
)

// TestChaosStorm kills leading processes, or what watches over them, again and again: a release after a crash
// must never come beside a process that still works, and where nothing is left that may release, another candidate
// leads when the lease has lapsed, and not before. Half of it is on one Redis server, half on three.
func TestChaosStorm(t *testing.T) {
	seed, long := chaosSeed(t), os.Getenv("CHAOSKILLS")
	kills, err := strconv.ParseInt(or(long, strconv.Itoa(stormKills)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: make chaos CHAOSKILLS=%d CHAOSSEED=%d", seed, kills, seed)
	mandate, spawn := buildMandate(t), newSpawner(t)
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) {
			s := &storm{t: t, mandate: mandate, spawn: spawn, servers: servertest.RedisN(t, nodes), gaps: map[string][]time.Duration{}}
			end := time.Now().Add(stormTime)
			s.more = func() bool {
				n := s.kills.Load()
				return n < kills/2 && (long != "" || n < minTerms || time.Now().Before(end))
			}
			s.blow(seed)
			s.report()
		})
	}
}

// storm is on one list of servers.
type storm struct {
	t       *testing.T
	mandate string
	spawn   func(func() error) error
	servers []*servertest.Server

	more  func() bool // false: it has been enough
	kills atomic.Int64
	late  []Record // of the machine

	mu    sync.Mutex
	gaps  map[string][]time.Duration // by what was killed: until the next one began to work
	terms int
	kept  int // kills after which nothing could release the term
}

// urls are those of the servers themselves.
func (s *storm) urls() (all []string) {
	for _, server := range s.servers {
		all = append(all, server.URL())
	}
	return all
}

// A lane whose lease is long shows by its next leader that the term was released: the lease would
// not lapse within maxWait. In one whose lease is short also those are killed that release.
const (
	longLease  = 10 * maxWait
	shortLease = 2 * time.Second
)

// blow has several elections at a time.
func (s *storm) blow(seed uint64) {
	ctx, stop := context.WithCancel(context.Background())
	var watcher sync.WaitGroup
	watcher.Go(func() { s.watch(ctx) })
	var all sync.WaitGroup
	for i, kind := range []laneKind{
		{lease: longLease}, {lease: longLease}, {lease: longLease, run: true}, {lease: longLease, run: true},
		{lease: shortLease}, {lease: shortLease}, {lease: shortLease}, // a kill there takes a lease
		{lease: shortLease, run: true}, {lease: shortLease, run: true}, {lease: shortLease, run: true},
	} {
		l := newLane(s, fmt.Sprintf("l%d", i), kind, rand.New(rand.NewPCG(seed, uint64(i))))
		all.Go(l.play)
	}
	all.Wait()
	stop()
	watcher.Wait()
}

// watch notes when the machine lets this process wait.
func (s *storm) watch(ctx context.Context) {
	watchLateness(ctx, func(r Record) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.late = append(s.late, r)
	})
}

func (s *storm) killed(what string, gap time.Duration) {
	s.kills.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gaps[what] = append(s.gaps[what], gap)
}

func (s *storm) report() {
	s.t.Logf("%d kills, %d terms; of them %d were left to their lease", s.kills.Load(), s.terms, s.kept)
	whats := make([]string, 0, len(s.gaps))
	for what := range s.gaps {
		whats = append(whats, what)
	}
	slices.Sort(whats)
	for _, what := range whats {
		all := s.gaps[what]
		slices.Sort(all)
		at := func(percent int) time.Duration { return all[(len(all)-1)*percent/100].Round(100 * time.Microsecond) }
		s.t.Logf("%-45s %5d times; the next one worked after: median %v, 99%% %v, at most %v", what, len(all), at(50), at(99), at(100))
	}
	if s.terms < minTerms {
		s.t.Errorf("only %d terms: that proves little", s.terms)
	}
	if s.kills.Load() >= stormKills/2 && s.kept == 0 {
		s.t.Error("no kill left a term to its lease: that proves little")
	}
}

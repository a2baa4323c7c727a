package simtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/semver"
)

// Candidates of all versions, most of which refuse downgrades, start in any order: it is as if each deploy was rolled back
// halfway. The checker knows which versions have led, and since when a node has lost that, so it knows
// what each node must refuse, whatever it holds.

var versions = []string{"v1.0.0", "v1.1.0", "v1.2.0-rc.1", "v1.2.0", "v1.10.0", "", "main-d6eeb56"}

// newestVersion is that of the candidate which starts when all faults are over: it may always lead.
const newestVersion = "v2.0.0"

// deploy is what distinguishes candidates.
type deploy struct {
	version string
	guarded bool // it refuses downgrades
}

// judged reports whether its version keeps it from leading, or others after it.
func (d deploy) judged() bool { return d.guarded && semver.Valid(d.version) }

func (d deploy) String() string {
	return fmt.Sprintf("version %q, refuses downgrades %v", d.version, d.guarded)
}

// deployOf is the same whenever the host boots.
func (s *Sim) deployOf(host, boot int) deploy {
	if !s.o.Deploys {
		return deploy{}
	}
	rng := rand.New(rand.NewPCG(s.o.Seed, 1<<32+uint64(host)<<16+uint64(boot)))
	d := deploy{version: versions[rng.IntN(len(versions))], guarded: rng.IntN(5) > 0}
	if s.retreats() {
		d = deploy{newestVersion, true}
	}
	return d
}

// retreats reports whether the faults are over.
func (s *Sim) retreats() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quiet
}

// older reports whether a version is older than another; none is older than no version.
func older(version, than string) bool {
	order, ok := semver.Compare(version, than)
	return ok && order < 0
}

// openOperator gives the operator a way to the nodes past all faults.
func (s *Sim) openOperator() {
	clients := make([]redis.UniversalClient, len(s.nodes))
	for i, n := range s.nodes {
		clients[i] = n.admin
	}
	q, err := elector.NewQuorum(clients...)
	if err != nil {
		panic(err)
	}
	el, err := q.Election(election)
	if err != nil {
		panic(err)
	}
	s.operators, s.operator = q, el.As("ada")
}

// operate lets older versions lead, or ends that, at random.
func (p *planner) operate() {
	lowest := []string{elector.AnyVersion, "v1.0.0", "v1.1.0", "v1.2.0"}[p.rng.IntN(4)]
	if p.rng.IntN(3) == 0 {
		p.kind = "older versions are refused again"
		p.add(func(s *Sim) { s.refuseOlder() }, "an operator refuses older versions")
		return
	}
	p.kind = "older versions are allowed"
	p.add(func(s *Sim) { _ = s.allowOlder(lowest) }, "an operator lets versions from %s on lead", lowest)
}

// allowOlder lowers what nodes refuse before they do: candidates claim as soon as one node knows.
func (s *Sim) allowOlder(lowest string) error {
	s.mu.Lock()
	s.operated = time.Now()
	for i := range s.nodes {
		s.lower(i, lowest)
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), s.t.lease)
	defer cancel()
	return s.operator.AllowOlder(ctx, lowest, "")
}

func (s *Sim) refuseOlder() {
	ctx, cancel := context.WithTimeout(context.Background(), s.t.lease)
	defer cancel()
	_ = s.operator.RefuseOlder(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.operated = time.Now()
	for i, n := range s.nodes { // it may have overtaken a claim
		if h, ok := n.highest(s.keys); ok && h.Allow == "" {
			s.lower(i, h.Version)
		}
	}
}

// lower notes that a node admits versions from this one on, also claims under way. s.mu is held.
func (s *Sim) lower(node int, version string) {
	if version == elector.AnyVersion {
		version = ""
	}
	floors := []*string{&s.nodes[node].floor}
	for _, p := range s.procs {
		if p.floors != nil {
			floors = append(floors, &p.floors[node])
		}
	}
	for _, floor := range floors {
		if version == "" || older(version, *floor) {
			*floor = version
		}
	}
}

// highest is what the node holds.
func (n *node) highest(keys protocol.Keys) (protocol.Highest, bool) {
	value, err := n.redis.Get(keys.Version)
	if err != nil {
		return protocol.Highest{}, false
	}
	return protocol.ParseHighest(value)
}

// refuses reports whether a node that holds this does not vote for the version.
func refuses(h protocol.Highest, version string) bool {
	switch {
	case !older(version, h.Version), h.Allow == elector.AnyVersion:
		return false
	default:
		return h.Allow == "" || older(version, h.Allow)
	}
}

// floors are what the nodes refuse right now. s.mu is held.
func (s *Sim) floors() []string {
	floors := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		floors[i] = n.floor
	}
	return floors
}

// notice takes what the nodes hold for what they must refuse from now on. One that holds less than it should, without a
// reason, still must refuse what it has seen. s.mu is held.
func (s *Sim) notice() {
	for i, n := range s.nodes {
		h, ok := n.highest(s.keys)
		switch {
		case !ok:
		case h.Allow != "":
			s.lower(i, h.Allow)
		case h.Version == s.top || !older(h.Version, n.floor):
			n.floor = h.Version
		}
	}
}

// elected checks that no majority of the nodes had to refuse the version of a term, and notes that it has led.
// s.mu is held.
func (s *Sim) elected(r *record) {
	p := r.proc
	if !p.deploy.judged() {
		return
	}
	refusing, than := 0, ""
	for _, floor := range p.floors {
		if older(p.deploy.version, floor) {
			refusing, than = refusing+1, floor
		}
	}
	if s.o.Mode != TokensOnly && refusing > (len(s.nodes)-1)/2 {
		s.violate("%s leads with version %s, although %d of %d nodes know that %s has led", p.name, p.deploy.version, refusing, len(s.nodes), than)
	}
	s.versionTerms++
	s.top = p.deploy.version
	s.notice()
}

// lookVersions checks that each node which holds a leader's lock keeps its version. s.mu is held.
func (s *Sim) lookVersions() {
	s.notice()
	if time.Since(s.operated) < s.t.lease { // it may have written what was true a moment before
		return
	}
	for _, p := range s.procs {
		if !p.counts() || p.running == nil || !p.deploy.judged() || !p.e.IsLeader() {
			continue
		}
		for _, n := range s.nodes {
			if h, ok := n.highest(s.keys); n.holds(s.keys, p.prefix) && (!ok || h.Allow == "" && h.Version != p.deploy.version) {
				s.violate("%s leads with version %s, and node %d, which holds its lock, keeps %q", p.name, p.deploy.version, n.id, h.Version)
			}
		}
	}
}

// mayFollow reports whether there is a candidate that may lead after this one. Where all are too old the operator lets them.
func (s *Sim) mayFollow(leader *proc) bool {
	s.mu.Lock()
	others := slices.DeleteFunc(slices.Clone(s.procs), func(p *proc) bool { return p == leader || !p.stopped.IsZero() })
	may := slices.ContainsFunc(others, func(p *proc) bool {
		refusing := 0
		for _, n := range s.nodes {
			if h, ok := n.highest(s.keys); ok && p.deploy.judged() && refuses(h, p.deploy.version) {
				refusing++
			}
		}
		return refusing <= (len(s.nodes)-1)/2
	})
	s.mu.Unlock()
	if may || len(others) == 0 {
		return may
	}
	s.history.addf("an operator lets any version lead")
	if err := s.allowOlder(elector.AnyVersion); err != nil {
		s.fault("an operator can't let older versions lead: %v", err)
	}
	return true
}

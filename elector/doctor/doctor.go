// Package doctor answers "is this Redis fit for elections?": it examines the nodes of a
// Quorum, and an election on them, and returns typed findings with advice. mandate doctor
// prints them; a service may run it once before it starts, or behind a page for operators.
//
// It looks from outside, needs no candidacy, and changes nothing that an election uses.
// Texts are for people and may change; programs go by a Finding's Check and Level. Advice
// names commands of mandate and redis-cli.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/inside"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Level is how bad a Finding is.
type Level string

// The levels, from good to bad.
const (
	LevelOK      Level = "ok"
	LevelUnknown Level = "unknown" // it could not be looked at, often for want of a right
	LevelWarn    Level = "warn"    // it works, with less than it could have
	LevelFail    Level = "fail"    // the election does not work, or is not safe
)

// rank orders the levels.
var rank = map[Level]int{LevelOK: 0, LevelUnknown: 1, LevelWarn: 2, LevelFail: 3}

// Worse reports whether l is worse than another level.
func (l Level) Worse(than Level) bool { return rank[l] > rank[than] }

// Worst is the worst level among the findings; LevelOK when there are none.
func Worst(findings []Finding) Level {
	worst := LevelOK
	for _, f := range findings {
		if f.Level.Worse(worst) {
			worst = f.Level
		}
	}
	return worst
}

// Finding is the outcome of one check.
type Finding struct {
	Node   string `json:"node,omitempty"` // empty: about all of them
	Check  string `json:"check"`          // what was looked at, one word
	Level  Level  `json:"level"`
	Found  string `json:"found"`            // in words
	Advice string `json:"advice,omitempty"` // what to do
}

// Config is what Examine looks at. The zero value examines the nodes alone.
type Config struct {
	// Election is also examined: who leads, which nodes its candidates vote with, what its
	// history holds. Default: none.
	Election string
	// Lease is what the nodes are measured against. Default: the one that the leader uses,
	// or else 10 s.
	Lease time.Duration
	// Command spells a command of mandate that advice names, by its verb and arguments; mandate
	// itself adds the flags that choose this Redis. Default: the words as they are.
	Command func(verb string, args ...string) string
}

// timeout bounds each of the two rounds of requests to a node.
const timeout = 3 * time.Second

// Examine checks what an election needs of its Redis: that it answers, how
// fast, which rights it grants, what it keeps over a restart, whether it throws
// keys away, replicas, clocks, whether messages arrive. Elections with other prefixes
// are examined by way of q.Namespace.
//
// It blocks for two rounds of requests to the nodes, of at most 3 s each, or until ctx ends.
// Beside the election's keys it writes two more (prefix:{election}:check)
// and removes them. What Redis refuses to report is LevelUnknown, no failure. A Redis that
// is down is a finding: the error is only for a Config that can't be used, or a Quorum
// that Open or NewQuorum did not make. The candidates of a named election are queried
// which nodes they vote with, and who leads.
func Examine(ctx context.Context, q *elector.Quorum, cfg Config) ([]Finding, error) {
	nodes := inside.NodesOf(q)
	if nodes == nil {
		return nil, errors.New("doctor: no Quorum: make one with elector.Open or elector.NewQuorum")
	}
	el, err := q.Election(cmp.Or(cfg.Election, "doctor"))
	if err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	if cfg.Lease != 0 {
		if err := (lease.Timing{Lease: cfg.Lease}).WithDefaults().Validate(); err != nil {
			return nil, fmt.Errorf("doctor: %w", err)
		}
	}
	keys := quorum.KeysOf(q.Prefix(), el.Name())
	var seen outside
	var requests sync.WaitGroup
	if cfg.Election != "" {
		requests.Go(func() { seen.callRoll(ctx, el) })
		requests.Go(func() { seen.terms, seen.termsErr = recentTerms(ctx, el) })
	}
	facts := nodes.Inspect(ctx, keys, timeout)
	requests.Wait()
	e := newExamination(keys, facts, nodes.Majority(), cfg.Lease)
	if cfg.Command != nil {
		e.command = cfg.Command
	}
	e.nodes()
	if cfg.Election != "" {
		e.election(el.Name(), seen)
	}
	byNode(e.findings)
	return e.findings, nil
}

// byNode puts what was found about one node together, and last what concerns all of them.
func byNode(findings []Finding) {
	place := map[string]int{"": len(findings)}
	for i, f := range findings {
		if _, ok := place[f.Node]; !ok {
			place[f.Node] = i
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(place[a.Node], place[b.Node]) })
}

// outside is what the public face of the election shows.
type outside struct {
	status       elector.Status
	statusErr    error
	roll         rollCall
	unresponsive bool // the leader
	terms        []elector.TermRecord
	termsErr     error
}

// callRoll queries the nodes (who leads) and at the same time the candidates (what they are), and
// compares.
func (o *outside) callRoll(ctx context.Context, el *elector.Election) {
	var requests sync.WaitGroup
	requests.Go(func() { o.status, o.statusErr = el.Status(ctx) })
	o.roll = callRoll(ctx, el)
	requests.Wait()
	if l := o.status.Leader; l != nil && o.statusErr == nil && o.roll.err == nil {
		o.unresponsive = Unresponsive(ctx, el, *l, o.roll.all)
	}
}

// examination judges facts. It does no I/O.
type examination struct {
	keys     quorum.Keys
	facts    []quorum.Facts
	majority int
	timing   lease.Timing
	command  func(verb string, args ...string) string // see Config.Command
	findings []Finding
}

func newExamination(keys quorum.Keys, facts []quorum.Facts, majority int, length time.Duration) *examination {
	timing := lease.Timing{Lease: cmp.Or(length, leaseOf(facts))}.WithDefaults()
	return &examination{keys: keys, facts: facts, majority: majority, timing: timing, command: spelled}
}

func spelled(verb string, args ...string) string {
	return strings.Join(append([]string{"mandate", verb}, args...), " ")
}

// leaseOf is the lease that the holder of the lock uses; 0 when it is free.
func leaseOf(facts []quorum.Facts) time.Duration {
	for _, f := range facts {
		if b, err := quorum.ParseBallot(f.View.Holder); err == nil {
			return b.Lease
		}
	}
	return 0
}

func (e *examination) add(node, check string, level Level, advice, found string, args ...any) {
	e.findings = append(e.findings, Finding{Node: node, Check: check, Level: level, Found: fmt.Sprintf(found, args...), Advice: advice})
}

// nodes looks at each node, and then at all of them together.
func (e *examination) nodes() {
	for i := range e.facts {
		e.node(&e.facts[i])
	}
	e.together()
}

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
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/inside"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

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

// Examine checks what an election needs of its Redis: that it answers, how
// fast, which rights it grants, what it keeps over a restart, whether it throws
// keys away, replicas, clocks, whether messages arrive, whether cordons can be recorded. Elections with other prefixes
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
	keys := protocol.KeysOf(q.Prefix(), el.Name())
	var seen outside
	var requests sync.WaitGroup
	if cfg.Election != "" {
		requests.Go(func() { seen.callRoll(ctx, el) })
		requests.Go(func() { seen.terms, seen.termsErr = recentTerms(ctx, el) })
	}
	facts := registry.Inspect(ctx, nodes, keys, timeout)
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

// nodes looks at each node, and then at all of them together.
func (e *examination) nodes() {
	for i := range e.facts {
		e.node(&e.facts[i])
	}
	e.together()
}

// Package doctor checks whether a Redis is fit for elections. It examines the nodes of a
// Quorum, and an election on them, and returns typed findings with advice. mandate doctor
// prints them; a service may run it once before it starts, or behind a page for operators.
//
// It looks from outside, needs no candidacy, and changes nothing that an election uses.
// Texts are for people and may change; programs should rely on a Finding's Check and Level
// only. Advice names commands of mandate and redis-cli.
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
	// Lease is the lease against which round trips are judged. Default: the one that the leader
	// uses, or else 10 s.
	Lease time.Duration
	// Command formats a command of mandate, named in advice, from its verb and arguments. The
	// mandate program uses it to add the flags that select this Redis. Default: "mandate", the
	// verb and the arguments.
	Command func(verb string, args ...string) string
}

// Examine checks what an election needs of its Redis: whether each node answers, how
// fast, which rights it grants, what it keeps over a restart, whether it evicts keys,
// replicas, clocks, and whether messages arrive. To examine elections with another prefix, use q.Namespace.
//
// Examine blocks for two rounds of requests to the nodes, of at most 3 s each, or until ctx
// ends. It writes two keys beside those of the election (prefix:{election}:check) and
// removes them. If Redis refuses to report something, the finding is LevelUnknown and no
// failure. A Redis that is down is a finding, too. Examine returns an error only for a Config
// that can't be used, or a Quorum that neither Open nor NewQuorum made. If an election is
// named, Examine also queries its candidates for the nodes that they vote with, and for the
// leader.
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
	var seen Report
	var requests sync.WaitGroup
	if cfg.Election != "" {
		requests.Go(func() { seen.callRoll(ctx, el) })
		requests.Go(func() { seen.Terms, seen.TermsErr = recentTerms(ctx, el) })
	}
	facts := registry.Inspect(ctx, nodes, keys, timeout)
	requests.Wait()
	e := newExamination(keys, facts, nodes.Majority(), cfg.Lease)
	if cfg.Command != nil {
		e.command = cfg.Command
	}
	e.nodes()
	if cfg.Election != "" {
		e.held(&seen)
		e.election(&seen)
	}
	byNode(e.findings)
	return e.findings, nil
}

// byNode groups the findings by node. Findings about all nodes come last.
func byNode(findings []Finding) {
	place := map[string]int{"": len(findings)}
	for i, f := range findings {
		if _, ok := place[f.Node]; !ok {
			place[f.Node] = i
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return cmp.Compare(place[a.Node], place[b.Node]) })
}

// nodes checks each node, and then all of them together.
func (e *examination) nodes() {
	for i := range e.facts {
		e.node(&e.facts[i])
	}
	e.together()
}

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// timeout bounds each of the two rounds of requests to a node.
const timeout = 3 * time.Second

// Report is what the nodes, the candidates and the history show of an election, all read through
// the public API.
type Report struct {
	Status        elector.Status
	StatusErr     error
	Candidates    []elector.CandidateStatus // those that answered
	CandidatesErr error
	Unresponsive  bool                 // the leader is, see [Unresponsive]
	LeaseLeft     time.Duration        // of the leader, when all answers had arrived
	Terms         []elector.TermRecord // the newest ones, newest first
	TermsErr      error
	Writes        []Finding // of [Writable]; nil: not tried
}

// Findings judges a report without any I/O. The findings are those of Examine that need no look at
// the nodes themselves; First has the most important one. command is that of a Config; nil: its
// default.
func (r *Report) Findings(command func(verb string, args ...string) string) []Finding {
	e := &examination{command: command}
	if command == nil {
		e.command = spelled
	}
	e.reachable(r)
	e.election(r)
	return e.findings
}

// callRoll queries the nodes for the leader and, at the same time, the candidates for their state.
// Then it finds out whether the leader is unresponsive.
func (r *Report) callRoll(ctx context.Context, el *elector.Election) {
	var requests sync.WaitGroup
	var read time.Time // when the status was read
	requests.Go(func() {
		r.Status, r.StatusErr = el.Status(ctx)
		read = time.Now()
	})
	requests.Go(func() {
		calling, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		r.Candidates, r.CandidatesErr = el.Candidates(calling)
	})
	requests.Wait()
	if l := r.Status.Leader; l != nil && r.StatusErr == nil && r.CandidatesErr == nil {
		left := func() time.Duration { return max(0, l.LeaseLeft-time.Since(read)) }
		now := *l
		now.LeaseLeft = left()
		r.Unresponsive = Unresponsive(ctx, el, now, r.Candidates)
		r.LeaseLeft = left()
	}
}

// examination judges the facts that were read before. It does no I/O.
type examination struct {
	keys     protocol.Keys
	facts    []registry.Facts
	majority int
	timing   lease.Timing
	command  func(verb string, args ...string) string // see Config.Command
	findings []Finding
}

func newExamination(keys protocol.Keys, facts []registry.Facts, majority int, length time.Duration) *examination {
	timing := lease.Timing{Lease: cmp.Or(length, leaseOf(facts))}.WithDefaults()
	return &examination{keys: keys, facts: facts, majority: majority, timing: timing, command: spelled}
}

func spelled(verb string, args ...string) string {
	return strings.Join(append([]string{"mandate", verb}, args...), " ")
}

// leaseOf returns the lease that the holder of the lock uses; 0 when the lock is free.
func leaseOf(facts []registry.Facts) time.Duration {
	for _, f := range facts {
		if b, err := protocol.ParseLockValue(f.View.Holder); err == nil {
			return b.Lease
		}
	}
	return 0
}

func (e *examination) add(node, check string, level Level, advice, found string, args ...any) {
	e.findings = append(e.findings, Finding{Node: node, Check: check, Level: level, Found: fmt.Sprintf(found, args...), Advice: advice})
}

func leadersOf(all []elector.CandidateStatus) []elector.CandidateStatus {
	return slices.DeleteFunc(slices.Clone(all), func(c elector.CandidateStatus) bool { return !c.Leads() })
}

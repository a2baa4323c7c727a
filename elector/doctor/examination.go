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

// outside is what the public API shows of the election.
type outside struct {
	status       elector.Status
	statusErr    error
	roll         rollCall
	unresponsive bool          // the leader is
	leaseLeft    time.Duration // of the leader, when all answers had arrived
	terms        []elector.TermRecord
	termsErr     error
}

// callRoll queries the nodes for the leader and, at the same time, the candidates for their state.
// Then it finds out whether the leader is unresponsive.
func (o *outside) callRoll(ctx context.Context, el *elector.Election) {
	var requests sync.WaitGroup
	var read time.Time // when the status was read
	requests.Go(func() {
		o.status, o.statusErr = el.Status(ctx)
		read = time.Now()
	})
	o.roll = callRoll(ctx, el)
	requests.Wait()
	if l := o.status.Leader; l != nil && o.statusErr == nil && o.roll.err == nil {
		left := func() time.Duration { return max(0, l.LeaseLeft-time.Since(read)) }
		now := *l
		now.LeaseLeft = left()
		o.unresponsive = Unresponsive(ctx, el, now, o.roll.all)
		o.leaseLeft = left()
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

// rollCall is what the candidates of an election have answered.
type rollCall struct {
	all     []elector.CandidateStatus
	leaders []elector.CandidateStatus // those that lead at the same time
	err     error
}

// callRoll makes a roll call. If two candidates answer as leader, the leader may have changed between
// their answers. Then callRoll makes a second call, and keeps the leaders whose term is in both.
func callRoll(ctx context.Context, el *elector.Election) (r rollCall) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if r.all, r.err = el.Candidates(ctx); r.err != nil {
		return r
	}
	if r.leaders = leadersOf(r.all); len(r.leaders) < 2 {
		return r
	}
	again, err := el.Candidates(ctx)
	if err != nil {
		return r
	}
	r.leaders = slices.DeleteFunc(r.leaders, func(c elector.CandidateStatus) bool {
		return !slices.ContainsFunc(leadersOf(again), func(o elector.CandidateStatus) bool { return o.Incarnation == c.Incarnation && o.Token == c.Token })
	})
	return r
}

func leadersOf(all []elector.CandidateStatus) []elector.CandidateStatus {
	return slices.DeleteFunc(slices.Clone(all), func(c elector.CandidateStatus) bool { return c.Role != elector.RoleLeading })
}

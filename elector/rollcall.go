package elector

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// CandidateStatus is a candidate's answer to a roll call.
type CandidateStatus struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"`         // distinguishes two candidates, or two lives, with one id
	Advertise   string `json:"advertise,omitempty"` // where it can be reached, as configured
	Version     string `json:"version,omitempty"`   // of its program
	Host        string `json:"host,omitempty"`      // of its process
	PID         int    `json:"pid,omitempty"`       // of the candidate's process on Host; in a container, the PID inside it
	Role        string `json:"role"`                // idle, following, leading, stopping, resting or observing
	Token       uint64 `json:"token,omitempty"`     // of the term that the candidate serves
	Healthy     bool   `json:"healthy"`             // it leads or could be elected, as far as its probes and Redis go
	Detail      string `json:"detail,omitempty"`    // the probe's message, or why the candidate can't campaign
	Priority    int    `json:"priority,omitempty"`  // as configured, for the succession by priority
	// Unable is set when the candidate is not healthy for a reason other than its probes: Redis
	// refuses its claims, for example, or its lease differs from the leader's.
	Unable bool `json:"unable,omitempty"`
	// Succession is the candidate's Config.Succession, or "race" where it is empty. Empty: not known.
	Succession string `json:"succession,omitempty"`
	// RunningFor and HealthyFor are durations, so that the clocks of two machines are never
	// compared.
	RunningFor time.Duration `json:"-" ms:"running_ms"`               // since its start
	HealthyFor time.Duration `json:"-" ms:"healthy_for_ms,omitempty"` // since it became healthy
	RestFor    time.Duration `json:"-" ms:"rest_for_ms,omitempty"`    // while it rests: until the candidate campaigns again
	// RestReason is why the candidate rests: the reason for the end of its last term, with the detail.
	RestReason string        `json:"rest_reason,omitempty"`
	Lease      time.Duration `json:"-" ms:"lease_ms,omitempty"` // as configured; zero: not known
	// Probes are which probes it has: "candidate" (Config.Probe), "work" (Config.WorkProbe). Without one
	// work that hangs is not noticed.
	Probes []string `json:"probes,omitempty"`
	// Nodes are the Redis nodes that the candidate votes with, in the order of its list.
	Nodes []VotingNode `json:"nodes,omitempty"`
}

// Leads reports whether the candidate serves a term.
func (c CandidateStatus) Leads() bool { return c.Role == roleLeading }

// Observes reports whether the candidate never campaigns (Config.Observer).
func (c CandidateStatus) Observes() bool { return c.Role == roleObserving }

// VotingNode is a Redis node in a candidate's list.
type VotingNode struct {
	Name string `json:"name"` // its address, as that candidate knows it
	// Identity is the node's identity in the election: two candidates may know one node under two
	// names, or two nodes under one. Empty: the node has not answered lately.
	Identity string `json:"identity,omitempty"`
	// Refusal is the error with which the node answers requests of that candidate, and Remedy what
	// to do about it where that is known. A node may refuse only renewals, or only that candidate's
	// user. Empty: the node has refused no request for a lease, or does not answer at all.
	Refusal string `json:"refusal,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// SilentFor is for how long the node has not answered requests of that candidate; zero: it does. A
	// follower sends about one per lease.
	SilentFor time.Duration `json:"-" ms:"silent_ms,omitempty"`
}

// Candidates calls the roll of the election: it returns who is a candidate at this moment,
// the leader first, then by id. It publishes a request and waits until all subscribed
// candidates have answered, at most 3 s where a node or a candidate hangs (or until ctx
// ends). A candidate that hangs or is cut off is missing, and one that votes with other nodes alone does not
// count. The error is ErrUnreachable when
// no majority of the nodes could be reached, or none of them lets this process receive the
// answers.
func (el *Election) Candidates(ctx context.Context) ([]CandidateStatus, error) {
	s := el.Survey(ctx, 0, module.Only{})
	return s.Candidates, s.CandidatesErr
}

// Survey is what Status, Candidates and History show of one moment.
type Survey struct {
	Status        Status
	StatusErr     error
	At            time.Time // of the status
	Candidates    []CandidateStatus
	CandidatesErr error
	Others        []int // the protocols of candidates that have another one
	Terms         []TermRecord
	TermsErr      error
}

// Survey is for package doctor: Status, Candidates and History, with n terms, by one query of the nodes and one of the
// candidates, at the same time. It leaves out the terms if n is 0.
func (el *Election) Survey(ctx context.Context, n int, _ module.Only) (s Survey) {
	if err := checkOpen(el.nodes); err != nil {
		return Survey{Status: Status{Election: el.name}, StatusErr: err, CandidatesErr: err, TermsErr: err}
	}
	var looking sync.WaitGroup
	looking.Go(func() {
		if n == 0 {
			s.Status, s.StatusErr = el.look(ctx, 0)
			return
		}
		s.Status, s.StatusErr = el.look(ctx, entriesOf(n))
		s.At = time.Now()
		s.Terms, s.TermsErr = el.terms(ctx, n, s.Status, s.StatusErr)
	})
	answers, others, errs := el.channel().RollCall(ctx)
	looking.Wait()
	s.Others = others
	var ids []string
	for _, n := range s.Status.Nodes {
		ids = append(ids, n.Identity)
	}
	lock := protocol.IdentitiesOf(ids)
	for _, a := range answers {
		if a.Identities().Meet(lock) {
			s.Candidates = append(s.Candidates, statusOf(a))
		}
	}
	slices.SortFunc(s.Candidates, func(a, b CandidateStatus) int {
		return cmp.Or(cmp.Compare(b.Token, a.Token), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	if errs != nil {
		s.CandidatesErr = noMajority(el.nodes.Len(), errs)
	}
	return s
}

func statusOf(c peers.Candidate) CandidateStatus {
	st := CandidateStatus{
		ID: c.ID, Incarnation: c.Incarnation, Advertise: c.Advertise, Version: c.Version, Host: c.Host, Role: c.Role,
		Token: c.Token, Healthy: c.Healthy, Detail: c.Detail, Priority: c.Priority, RunningFor: c.RunningFor, HealthyFor: c.HealthyFor,
		Unable: c.Unable, RestFor: c.RestFor, RestReason: c.RestWhy, PID: c.PID, Lease: c.Lease, Succession: c.Succession,
		Probes: c.Probes,
	}
	for _, n := range c.Nodes {
		st.Nodes = append(st.Nodes, VotingNode(n))
	}
	return st
}

// Able reports whether the candidate is healthy, and leads or could be elected now: it is
// neither stopping nor cooling down. Its own Check then returns nil.
func (c CandidateStatus) Able() bool {
	return c.Healthy && (c.Role == roleLeading || c.Role == roleFollowing)
}

// SameNodes reports whether both candidates can be voting with the same nodes, as far as the
// identities are known. If they can't, both could win a majority at the same time.
func (c CandidateStatus) SameNodes(other CandidateStatus) bool {
	if len(c.Nodes) == 0 || len(other.Nodes) == 0 {
		return true // not known
	}
	return len(c.Nodes) == len(other.Nodes) && !identitiesOf(c.Nodes).Differ(identitiesOf(other.Nodes).Known(), len(c.Nodes))
}

func identitiesOf(nodes []VotingNode) protocol.Identities {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.Identity
	}
	return protocol.IdentitiesOf(ids)
}

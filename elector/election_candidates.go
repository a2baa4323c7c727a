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

// CandidateStatus is a candidate's answer to a roll call: who it is (ID, Incarnation), where it runs (Advertise, Host, PID,
// Version, RunningFor), what it does (Role, Token), whether it leads or could be elected (Healthy, HealthyFor, and if not
// Detail, Unable, RestFor, RestReason), its settings (Priority, Succession, Lease, Probes), and its Nodes. Leads, Observes, Able and SameNodes are its methods.
type CandidateStatus = peers.Candidate

// VotingNode is a Redis node in a candidate's list: its Name and Identity, the Refusal with which it answers that candidate
// and the Remedy, and for how long it has not answered (SilentFor).
type VotingNode = peers.Node

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
	Status

	StatusErr     error
	At            time.Time         // when the status was read
	Candidates    []CandidateStatus // those that answered
	CandidatesErr error
	Others        []int         // the protocols of candidates that answered with another one
	Terms         []TermRecord  // the newest ones, newest first
	Pauses        []PauseRecord // those of the entries that were read for the terms, newest first: all if that is all terms
	TermsErr      error         // of both
}

// Survey is for package doctor: Status, Candidates and History, with n terms, by one query of the nodes and one of the
// candidates, at the same time. It leaves out the terms if n is 0.
func (el *Election) Survey(ctx context.Context, n int, _ module.Only) (s Survey) {
	if err := checkOpen(el.nodes); err != nil {
		return Survey{Status: Status{Election: el.name}, StatusErr: err, CandidatesErr: err, TermsErr: err}
	}
	var looking sync.WaitGroup
	looking.Go(func() {
		s.Status, s.StatusErr = el.look(ctx, entriesOf(n))
		if s.At = time.Now(); n > 0 {
			s.Terms, s.TermsErr = el.terms(ctx, n, s.Status, s.StatusErr)
			s.Pauses = s.pauses()
		}
	})
	answers, others, errs := el.channel().RollCall(ctx)
	looking.Wait()
	s.Others = others
	var ids []string
	for _, n := range s.Nodes {
		ids = append(ids, n.Identity)
	}
	lock := protocol.IdentitiesOf(ids)
	for _, a := range answers {
		if a.Identities().Meet(lock) {
			s.Candidates = append(s.Candidates, a)
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

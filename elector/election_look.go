package elector

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Look is what Status, Candidates and History show of one moment, and the pauses.
type Look struct {
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

// Look returns the status, the candidates and the newest n terms, by one query of the nodes and one of the candidates, at the
// same time; with n also the names of the jobs whose ticks the nodes keep. It blocks as Candidates does, and for many pauses as
// History does. What could not be read has its error in the Look.
func (el *Election) Look(ctx context.Context, n int) (l Look) {
	if err := checkOpen(el.nodes); err != nil {
		return Look{Status: Status{Election: el.name}, StatusErr: err, CandidatesErr: err, TermsErr: err}
	}
	var looking sync.WaitGroup
	looking.Go(func() {
		l.Status, l.StatusErr = el.read(ctx, entriesOf(n), n > 0)
		if l.At = time.Now(); n > 0 {
			l.Terms, l.TermsErr = el.terms(ctx, n, l.Status, l.StatusErr)
			l.Pauses = l.pauses()
		}
	})
	answers, others, errs := el.channel().RollCall(ctx)
	looking.Wait()
	l.Others = others
	var ids []string
	for _, n := range l.Nodes {
		ids = append(ids, n.Identity)
	}
	lock := protocol.IdentitiesOf(ids)
	for _, a := range answers {
		if a.Identities().Meet(lock) {
			l.Candidates = append(l.Candidates, a)
		}
	}
	slices.SortFunc(l.Candidates, func(a, b CandidateStatus) int {
		return cmp.Or(cmp.Compare(b.Token, a.Token), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	if errs != nil {
		l.CandidatesErr = noMajority(el.nodes.Len(), errs)
	}
	return l
}

// read is Status with so many of the newest entries of the history, and the names of the jobs: all that is shown of one
// moment comes from one read.
func (el *Election) read(ctx context.Context, entries int, jobs bool) (Status, error) {
	if err := checkOpen(el.nodes); err != nil {
		return Status{Election: el.name}, err
	}
	var also more
	if entries > 0 {
		also = historyAnd(entries, jobs)
	}
	nodes := readNodes(ctx, el.nodes, &el.keys, statusTimeout, also)
	for i := range nodes {
		n := &nodes[i]
		if n.pastErr = el.nodes.NodeError(i, n.pastErr); n.past == nil {
			n.pastErr = cmp.Or(n.pastErr, n.Err)
		}
		if n.JobsErr = el.nodes.NodeError(i, n.JobsErr); n.Jobs == nil {
			n.JobsErr = cmp.Or(n.JobsErr, n.Err)
		}
	}
	st := summarize(el.name, nodes, el.nodes.Majority())
	if errs := errorsOf(nodes); len(nodes)-len(errs) < el.nodes.Majority() {
		return st, noMajority(el.nodes.Len(), errs)
	}
	return st, nil
}

// historyAnd reads entries of the history, and the names of the jobs.
func historyAnd(entries int, jobs bool) more {
	return func(ctx context.Context, k *protocol.Keys) ([]redis.Cmder, func(*NodeStatus)) {
		past := redis.NewXMessageSliceCmd(ctx, "xrevrange", k.History, "+", "-", "count", entries)
		names := redis.NewStringSliceCmd(ctx, "zrevrange", k.Jobs(), 0, -1)
		cmds := []redis.Cmder{past}
		if jobs {
			cmds = append(cmds, names)
		}
		return cmds, func(n *NodeStatus) {
			if n.pastErr = rediserr.Needs(past.Err(), "+xrevrange %R~"+k.History); rediserr.WrongType(past.Err()) {
				n.pastErr = rediserr.ForeignKey(k.History, "holds another type than a stream")
			}
			for _, e := range past.Val() {
				text, _ := e.Values["event"].(string) // empty: of another program; it counts, since others were cut off for it
				n.past = append(n.past, text)
			}
			n.Jobs, n.JobsErr = names.Val(), names.Err()
		}
	}
}

// CandidateStatus is a candidate's answer to a roll call: who it is (ID, Incarnation), where it runs (Advertise, Host, PID,
// Version, RunningFor), what it does (Role, Token), whether it leads or could be elected (Healthy, HealthyFor, and if not
// Detail, Unable, RestFor, RestReason), its settings (Priority, Succession, Lease, Probes), and its Nodes. Leads,
// Able and SameNodes are its methods.
type CandidateStatus = peers.Candidate

// VotingNode is a Redis node in a candidate's list: its Name and Identity, the Refusal with which it answers that candidate
// and the Remedy, and for how long it has not answered (SilentFor).
type VotingNode = peers.Node

// Candidates calls the roll of the election: it returns who is a candidate at this moment, the leader first, then by id.
// It publishes a request and waits until all subscribed candidates have answered, at most 3 s where a node or a candidate
// hangs (or until ctx ends). A candidate that hangs or is cut off is missing, and one that votes with other nodes alone
// does not count. The error is ErrUnreachable when no majority of the nodes could be reached, or none of them lets this
// process receive the answers.
func (el *Election) Candidates(ctx context.Context) ([]CandidateStatus, error) {
	l := el.Look(ctx, 0)
	return l.Candidates, l.CandidatesErr
}

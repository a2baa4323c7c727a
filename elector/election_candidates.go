package elector

import (
	"context"

	"github.com/mandate-dev/mandate/elector/internal/peers"
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
	l := el.Look(ctx, 0)
	return l.Candidates, l.CandidatesErr
}

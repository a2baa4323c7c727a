package elector

import (
	"cmp"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Status is what the nodes know of an election at one moment.
type Status struct {
	Election string  `json:"election"` // its name
	Leader   *Leader `json:"leader"`   // nil: no candidate leads, unless MayLead is set
	Paused   bool    `json:"paused"`   // no new leader is elected
	// Pause describes in words who paused the election and why. PauseBy, PauseReason and PauseSince
	// are its parts; empty where the operator did not give them. PauseLeft is how long the pause
	// still lasts (zero: until Resume).
	Pause       string        `json:"pause,omitempty"`
	PauseBy     string        `json:"pause_by,omitempty"` // the operator
	PauseReason string        `json:"pause_reason,omitempty"`
	PauseSince  time.Time     `json:"pause_since,omitzero"` // by the clock of the operator's host
	PauseLeft   time.Duration `json:"-" ms:"pause_left_ms,omitempty"`
	Nodes       []NodeStatus  `json:"nodes"` // in the order of the list
	// Blocked is set when the lock key holds a value that no candidate wrote, on so many nodes
	// that no majority is left. No leader can be elected until an operator removes these values.
	Blocked string `json:"blocked,omitempty"`
	// Conflict is set when candidates that vote with different nodes hold locks of the election:
	// there may be two leaders.
	Conflict string `json:"conflict,omitempty"`
	// MayLead is set when it is not known who leads although a majority answered: this candidate does
	// if the nodes that did not answer hold its lock, as others do; or it leads, with another protocol.
	MayLead *Leader `json:"may_lead,omitempty"`
}

// Traced reports whether a node that answered knows the election: it has a token, a value in the
// lock key or a pause, or it abstains. Candidates that have never been able to lead leave no such
// trace. If there is neither a trace nor an answer to Candidates, the name is probably wrong.
func (st Status) Traced() bool {
	return st.Paused || slices.ContainsFunc(st.Nodes, func(n NodeStatus) bool {
		return n.Fence > 0 || n.Holder != "" || n.Foreign != "" || n.Abstains > 0
	})
}

// summarize merges what the nodes know of an election.
func summarize(election string, nodes []NodeStatus, majority int) Status {
	st := Status{Election: election, Nodes: nodes}
	locks, missing, foreign, others := locksOf(nodes), len(errorsOf(nodes)), 0, 0
	for _, n := range nodes {
		switch {
		case n.Protocol != 0:
			if others++; others == majority-missing {
				st.MayLead = &Leader{Candidate: n.Holder, Protocol: n.Protocol, LeaseLeft: n.LeaseLeft}
			}
		case n.Foreign != "":
			foreign++
			st.Blocked = cmp.Or(st.Blocked, n.Foreign)
		}
	}
	var note string
	if note, st.PauseLeft = pauseOf(nodes, majority); note != "" {
		pause := protocol.ParsePauseNote(note)
		st.Paused, st.Pause, st.PauseBy, st.PauseReason, st.PauseSince = true, pause.String(), pause.By, pause.Reason, pause.Since
	}
	if len(nodes)-foreign >= majority {
		st.Blocked = ""
	}
	st.Conflict = protocol.Conflict(locks)
	if in, ok := protocol.HolderOf(locks, majority); ok {
		st.Leader = leaderOf(in)
	} else if missing > 0 && missing < majority {
		if in, ok := protocol.HolderOf(locks, majority-missing); ok {
			st.MayLead = leaderOf(in)
		}
	}
	return st
}

// leaderOf returns the leader that a majority of the locks shows.
func leaderOf(in protocol.Holder) *Leader {
	return &Leader{
		Candidate: in.Candidate, Incarnation: in.Incarnation, Advertise: in.Advertise, Token: in.Token, LeaseLeft: in.Left, Since: in.Since,
		holder: in,
	}
}

// leader returns the leader, or why it is not known which candidate leads, or that none does.
func (st Status) leader() (Leader, error) {
	switch {
	case st.Leader != nil:
		return *st.Leader, nil
	case st.MayLead != nil && st.MayLead.Protocol != 0:
		return Leader{}, failed(ErrUnreachable, "%s holds the lock with %w: use one of its version", st.MayLead.Candidate, protocol.OtherVersion(st.MayLead.Protocol))
	case st.MayLead != nil:
		return Leader{}, failed(onNodes(ErrUnreachable, errorsOf(st.Nodes)), "%s may lead, which depends on nodes that did not answer", st.MayLead.Candidate)
	case st.Blocked != "":
		return Leader{}, failed(ErrNoLeader, "no leader, and no candidate can lead: %s", st.Blocked)
	default:
		return Leader{}, ErrNoLeader
	}
}

// highest returns the highest counter of the nodes.
func (st Status) highest() (highest uint64) {
	for _, n := range st.Nodes {
		highest = max(highest, n.Fence)
	}
	return highest
}

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

	pauseNote string // the value of the pause key; empty: not paused
}

// Traced reports whether a node that answered knows the election: it has a token, a value in the
// lock key or a pause, or it abstains. Candidates that have never been able to lead leave no such
// trace. If there is neither a trace nor an answer to Candidates, the name is probably wrong.
func (st Status) Traced() bool {
	return st.Paused || slices.ContainsFunc(st.Nodes, func(n NodeStatus) bool {
		return n.Fence > 0 || n.Holder != "" || n.Foreign != "" || n.Abstains > 0
	})
}

// Leader describes the leader of an election.
type Leader struct {
	Candidate   string        `json:"candidate"`                // its id
	Incarnation string        `json:"incarnation,omitempty"`    // random per Elector: distinguishes two processes of one id
	Advertise   string        `json:"advertise,omitempty"`      // where it can be reached, as configured
	Token       uint64        `json:"token"`                    // the fencing token of its term
	LeaseLeft   time.Duration `json:"-" ms:"lease_left_ms"`     // until the lease ends unless it is renewed
	Since       time.Time     `json:"since,omitempty,omitzero"` // when its term began, by the leader's clock
	Protocol    int           `json:"protocol,omitempty"`       // of its version, where that is another one than this program's

	holder protocol.Holder // what the locks show
}

// NodeStatus is what one node knows of an election.
type NodeStatus struct {
	Node      string        `json:"node"`                           // its address
	Reachable bool          `json:"reachable"`                      // the node answered with what it knows
	Denied    bool          `json:"denied,omitempty"`               // it refused, because the Redis user lacks a right
	Answered  bool          `json:"answered,omitempty"`             // it is up, and Error is its answer
	Error     string        `json:"error,omitempty"`                // a NodeError's Problem
	Holder    string        `json:"holder,omitempty"`               // the candidate that holds this node's lock
	Foreign   string        `json:"foreign,omitempty"`              // the lock key and what it holds, where no candidate of this protocol wrote it; the node can't vote
	Protocol  int           `json:"protocol,omitempty"`             // of Holder's version, where that is another one than this program's
	LeaseLeft time.Duration `json:"-" ms:"lease_left_ms,omitempty"` // until Holder's lock expires there
	Fence     uint64        `json:"fence"`                          // the highest token that this node knows
	Abstains  time.Duration `json:"-" ms:"abstains_ms,omitempty"`   // the node is new or lost its data: it grants nothing for so long
	Identity  string        `json:"identity,omitempty"`             // the word that distinguishes the node's data from others; empty: no candidate has claimed there
	RTT       time.Duration `json:"-" ms:"rtt_ms"`                  // how long the answer took
	Lock      string        `json:"-"`                              // the value of the lock that Holder wrote
	Err       error         `json:"-"`                              // why it is not Reachable

	pause     string        // the note of a pause; empty: not paused
	pauseLeft time.Duration // 0: the pause has no end

	past    []string // the newest entries of the history, newest first
	pastErr error
}

// statusTimeout bounds Status when the caller's context does not.
const statusTimeout = 1500 * time.Millisecond

// summarize merges what the nodes know of an election.
func summarize(election string, nodes []NodeStatus, majority int) Status {
	st := Status{Election: election, Nodes: nodes}
	locks, missing, paused, foreign, others := locksOf(nodes), len(errorsOf(nodes)), 0, 0, 0
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
		if n.pause != "" {
			paused++
			st.pauseNote, st.PauseLeft = n.pause, max(st.PauseLeft, n.pauseLeft)
		}
	}
	if st.Paused = paused >= majority; !st.Paused {
		st.pauseNote, st.PauseLeft = "", 0
	} else {
		pause := protocol.ParsePauseNote(st.pauseNote)
		st.Pause, st.PauseBy, st.PauseReason, st.PauseSince = pause.String(), pause.By, pause.Reason, pause.Since
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

// locksOf returns the locks that candidates wrote.
func locksOf(nodes []NodeStatus) (locks []protocol.Lock) {
	for _, n := range nodes {
		if n.Lock != "" {
			locks = append(locks, protocol.Lock{Value: n.Lock, Left: n.LeaseLeft})
		}
	}
	return locks
}

// errorsOf returns the errors of the nodes that could not be read.
func errorsOf(nodes []NodeStatus) (errs []error) {
	for _, n := range nodes {
		if n.Err != nil {
			errs = append(errs, n.Err)
		}
	}
	return errs
}

// highest returns the highest counter of the nodes.
func (st Status) highest() (highest uint64) {
	for _, n := range st.Nodes {
		highest = max(highest, n.Fence)
	}
	return highest
}

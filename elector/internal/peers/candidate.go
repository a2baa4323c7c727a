package peers

import (
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/millis"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Candidate is what a candidate publishes of itself: elector.CandidateStatus, in messages as in what users see.
type Candidate struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"`         // distinguishes two candidates, or two lives, with one id
	Advertise   string `json:"advertise,omitempty"` // where it can be reached, as configured
	Version     string `json:"version,omitempty"`   // of its program
	Host        string `json:"host,omitempty"`      // of its process
	PID         int    `json:"pid,omitempty"`       // of the candidate's process on Host; in a container, the PID inside it
	Role        string `json:"role"`                // idle, following, leading, stopping or resting
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
	Nodes []Node `json:"nodes,omitempty"`
}

// Node is a Redis node in a candidate's list: elector.VotingNode.
type Node struct {
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

// The roles by which candidates judge each other.
const (
	Following = "following" // campaigning, or waiting while another leads
	Leading   = "leading"   // serving a term
	Stopping  = "stopping"  // the term has ended, its work has not returned yet
)

// Leads reports whether the candidate serves a term.
func (c Candidate) Leads() bool { return c.Role == Leading }

// Able reports whether the candidate is healthy, and leads or could be elected now: it is
// neither stopping nor cooling down. Its own Check then returns nil.
func (c Candidate) Able() bool { return c.Healthy && (c.Role == Leading || c.Role == Following) }

// SameNodes reports whether both candidates can be voting with the same nodes, as far as the
// identities are known. If they can't, both could win a majority at the same time.
func (c Candidate) SameNodes(other Candidate) bool {
	if len(c.Nodes) == 0 || len(other.Nodes) == 0 {
		return true // not known
	}
	return len(c.Nodes) == len(other.Nodes) && !c.Identities().Differ(other.Identities().Known(), len(c.Nodes))
}

// Identities returns the identities of the nodes that the candidate votes with.
func (c Candidate) Identities() protocol.Identities {
	ids := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		ids[i] = n.Identity
	}
	return protocol.IdentitiesOf(ids)
}

// The types without their methods, which would call themselves.
type (
	plainCandidate Candidate
	plainNode      Node
)

// MarshalJSON writes durations in milliseconds.
func (c Candidate) MarshalJSON() ([]byte, error) { return millis.Marshal(plainCandidate(c)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Candidate) UnmarshalJSON(b []byte) error { return millis.Unmarshal(b, (*plainCandidate)(c)) }

// MarshalJSON writes durations in milliseconds.
func (n Node) MarshalJSON() ([]byte, error) { return millis.Marshal(plainNode(n)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Node) UnmarshalJSON(b []byte) error { return millis.Unmarshal(b, (*plainNode)(n)) }

// maxNodes is more nodes than any candidate's list has.
const maxNodes = 15

// These bound the texts of a Node, in bytes, so that those of all nodes fit into one message.
const (
	MaxRefusal = 250
	MaxRemedy  = 500 // all rights of a candidate
)

// bound limits the numbers and the lengths of the texts that a candidate sends: they decide which
// candidate is preferred, and are kept in memory.
func (c *Candidate) bound() {
	c.RunningFor, c.HealthyFor = max(0, c.RunningFor), max(0, c.HealthyFor)
	c.RestFor, c.Lease, c.Succession = max(0, c.RestFor), max(0, c.Lease), protocol.Clip(c.Succession, 64)
	c.Detail, c.RestReason, c.PID = protocol.Clip(c.Detail, protocol.MaxDetail), protocol.Clip(c.RestReason, protocol.MaxDetail), max(0, c.PID)
	c.ID, c.Incarnation = protocol.Clip(c.ID, protocol.MaxName), protocol.Clip(c.Incarnation, 64)
	c.Advertise, c.Version = protocol.Clip(c.Advertise, protocol.MaxAdvertise), protocol.Clip(c.Version, protocol.MaxAdvertise)
	c.Host, c.Role = protocol.Clip(c.Host, protocol.MaxAdvertise), protocol.Clip(c.Role, 64)
	c.Probes = slices.Clone(c.Probes[:min(len(c.Probes), 2)])
	for i, p := range c.Probes {
		c.Probes[i] = protocol.Clip(p, 16)
	}
	c.Nodes = slices.Clone(c.Nodes[:min(len(c.Nodes), maxNodes)])
	for i, n := range c.Nodes {
		c.Nodes[i] = Node{
			Name: protocol.Clip(n.Name, protocol.MaxName), Identity: protocol.Clip(n.Identity, 16),
			Refusal: protocol.Clip(n.Refusal, MaxRefusal), Remedy: protocol.Clip(n.Remedy, MaxRemedy),
			SilentFor: max(0, n.SilentFor),
		}
	}
}

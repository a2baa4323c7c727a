package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Candidate is what a candidate publishes of itself.
type Candidate struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"` // distinguishes two lives of one id
	Advertise   string `json:"advertise,omitempty"`
	Version     string `json:"version,omitempty"`
	Host        string `json:"host,omitempty"`
	Role        string `json:"role"`
	Token       uint64 `json:"token,omitempty"` // of the term that it leads
	Healthy     bool   `json:"healthy"`
	Detail      string `json:"detail,omitempty"` // the probe's message, or why it can't campaign
	Priority    int    `json:"priority,omitempty"`
	// RunningFor and HealthyFor are durations, so that the clocks of two machines are never
	// compared.
	RunningFor time.Duration `json:"running_ns"`
	HealthyFor time.Duration `json:"healthy_for_ns,omitempty"`
	Unable     bool          `json:"unable,omitempty"`      // not healthy, for a reason other than its probes
	RestFor    time.Duration `json:"rest_for_ns,omitempty"` // left of its cool-down
	RestWhy    string        `json:"rest_reason,omitempty"` // how the term ended that caused its cool-down
	PID        int           `json:"pid,omitempty"`         // on Host
	Lease      time.Duration `json:"lease_ns,omitempty"`
	Succession string        `json:"succession,omitempty"`
	Nodes      []Node        `json:"nodes,omitempty"` // its list of nodes, in its order
	Probes     []string      `json:"probes,omitempty"`
}

// Identities returns the identities of the nodes that the candidate votes with.
func (c Candidate) Identities() protocol.Identities {
	ids := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		ids[i] = n.Identity
	}
	return protocol.IdentitiesOf(ids)
}

// Node is a Redis node in a candidate's list.
type Node struct {
	Name     string `json:"name"`               // the node's address in the candidate's list
	Identity string `json:"identity,omitempty"` // as the node keeps it; empty: the node has not answered lately
	Refusal  string `json:"refusal,omitempty"`  // the error with which the node answers the candidate's requests; empty: none
	Remedy   string `json:"remedy,omitempty"`   // for the refusal; empty: not known
	// SilentFor is since when the node has not answered the candidate's requests; zero: it answers, or refuses.
	SilentFor time.Duration `json:"silent_ns,omitempty"`
}

// request is a message on the channels <prefix>:{<election>}:ask and :roll. Anyone who may publish
// on the first can make a leader hand over, as an operator does, again and again; any other
// request costs an answer at most.
type request struct {
	Version  int    `json:"v"` // of the protocol
	Kind     string `json:"kind"`
	Election string `json:"election"`
	Nonce    string `json:"nonce,omitempty"` // the name of the channel for the answers ends with it
	// of stepDown
	Leader string `json:"leader,omitempty"` // the incarnation of the leader that is meant
	Token  uint64 `json:"token,omitempty"`  // of its current term
	To     string `json:"to,omitempty"`     // incarnation of the heir; "": any
	Note   string `json:"note,omitempty"`
	// of info and gone
	Candidate *Candidate `json:"card,omitempty"`
}

// The kinds of requests.
const (
	rollCall  = "roll-call" // all candidates answer with what they are
	leaderAll = "cards"     // a leader's roll call: all candidates publish what they are
	stepDown  = "hand-over" // to the leader
	info      = "card"      // what the sender is; published at each change if the Order needs it
	gone      = "gone"      // the sender is not a candidate any more
	paused    = "paused"    // no new leader is elected
	resumed   = "resumed"   // the pause has ended
)

// Answer is a candidate's answer to a request.
type Answer struct {
	Version   int        `json:"v"` // of the protocol
	Candidate *Candidate `json:"card,omitempty"`
	Refused   string     `json:"refused,omitempty"` // why the leader doesn't step down
}

func (q request) encode() []byte {
	q.Version = protocol.Version
	b, err := json.Marshal(q)
	if err != nil { // strings and numbers
		panic("a request that can't be encoded: " + err.Error())
	}
	return b
}

func parseRequest(s string) (request, error) {
	var q request
	if len(s) > protocol.MaxMessage {
		return q, fmt.Errorf("request of %d bytes: too long to be one of ours", len(s))
	}
	err := json.Unmarshal([]byte(s), &q)
	if q.Version > 0 && q.Version != protocol.Version && q.Kind != rollCall { // whose frame, and the answer's, every protocol has
		return request{}, protocol.OtherVersion(q.Version)
	}
	if err != nil {
		return request{}, fmt.Errorf("not a request: %w", err)
	}
	if q.Version < 1 || q.Kind == "" || q.Election == "" {
		return request{}, errors.New("not a request: version, kind or election is missing")
	}
	if q.Nonce != "" && protocol.CheckWord("", q.Nonce, 64, "{}:*?[]") != nil {
		return request{}, errors.New("not a request: its nonce can't be a channel's name")
	}
	if q.To != "" && protocol.CheckWord("", q.To, 64, "") != nil {
		return request{}, errors.New("not a request: no candidate can be called that")
	}
	q.Note = protocol.Clip(q.Note, protocol.MaxReason)
	if q.Candidate != nil {
		q.Candidate.bound()
	}
	return q, nil
}

func (a Answer) encode() []byte {
	a.Version = protocol.Version
	b, err := json.Marshal(a)
	if err != nil { // strings and numbers
		panic("an answer that can't be encoded: " + err.Error())
	}
	return b
}

// parseAnswer returns of an answer with another protocol the version only.
func parseAnswer(s string) (Answer, error) {
	var a Answer
	if len(s) > protocol.MaxMessage {
		return a, fmt.Errorf("answer of %d bytes: too long to be one of ours", len(s))
	}
	err := json.Unmarshal([]byte(s), &a)
	if a.Version > 0 && a.Version != protocol.Version {
		return Answer{Version: a.Version}, nil
	}
	if err != nil || a.Version < 1 {
		return Answer{}, fmt.Errorf("not an answer: %.100q", s)
	}
	if a.Candidate != nil {
		if a.Candidate.ID == "" || a.Candidate.Incarnation == "" {
			return Answer{}, errors.New("not an answer: a candidate without an id")
		}
		a.Candidate.bound()
	}
	return a, nil
}

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
	c.Detail, c.RestWhy, c.PID = protocol.Clip(c.Detail, protocol.MaxDetail), protocol.Clip(c.RestWhy, protocol.MaxDetail), max(0, c.PID)
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

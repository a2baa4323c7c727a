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
	Token       uint64 `json:"token,omitempty"` // of the term that it serves
	Healthy     bool   `json:"healthy"`
	Detail      string `json:"detail,omitempty"` // the probe's message, or why it can't campaign
	Priority    int    `json:"priority,omitempty"`
	// RunningFor and HealthyFor are durations, so that no clocks of two machines are
	// compared.
	RunningFor time.Duration    `json:"running_ns"`
	HealthyFor time.Duration    `json:"healthy_for_ns,omitempty"`
	Unable     bool             `json:"unable,omitempty"`      // not healthy, for a reason other than its probes
	Cordoned   *protocol.Cordon `json:"cordoned,omitempty"`    // it does not campaign; nil: it does
	Outdated   string           `json:"outdated,omitempty"`    // the newer version that has led: it does not
	RestFor    time.Duration    `json:"rest_for_ns,omitempty"` // until it campaigns again
	RestWhy    string           `json:"rest_reason,omitempty"` // how its last term ended, after which it rests
	PID        int              `json:"pid,omitempty"`         // on Host
	Lease      time.Duration    `json:"lease_ns,omitempty"`
	Succession string           `json:"succession,omitempty"`
	Nodes      []Node           `json:"nodes,omitempty"` // that it votes with, in the order of its list
}

// Node is a Redis node in a candidate's list.
type Node struct {
	Name     string `json:"name"`               // its address, as that candidate knows it
	Identity string `json:"identity,omitempty"` // as the node keeps it; empty: it has not answered lately
	Refusal  string `json:"refusal,omitempty"`  // the error with which it answers requests of the candidate; empty: it does not
	Remedy   string `json:"remedy,omitempty"`   // of the refusal, where it is known
}

// request is what is published on the channels <prefix>:{<election>}:ask and :roll. Anyone
// who may publish on the first can have a leader hand over, as an operator does, again and
// again; all else costs an answer at most.
type request struct {
	Version  int    `json:"v"`
	Kind     string `json:"kind"`
	Election string `json:"election"`
	Nonce    string `json:"nonce,omitempty"` // the answers go to the channel that ends with it
	// of stepDown
	Token uint64 `json:"token,omitempty"` // whose term is meant
	To    string `json:"to,omitempty"`    // incarnation; "": any
	Note  string `json:"note,omitempty"`
	// of warm
	For time.Duration `json:"for_ns,omitempty"`
	// of info and gone
	Candidate *Candidate `json:"card,omitempty"`
}

// version is that of the requests' format.
const version = 1

// The kinds of requests.
const (
	rollCall  = "roll-call" // which candidates are there?
	leaderAll = "cards"     // a leader's roll call: all candidates publish what they are
	stepDown  = "hand-over" // to the leader
	info      = "card"      // of the sender; goes out when it changes, if the Order needs it
	gone      = "gone"      // the sender is no candidate any more
	paused    = "paused"    // no new leader is elected
	resumed   = "resumed"
	warm      = "warm" // to who should lead next: the leader waits until it is ready
)

// Answer is what comes back.
type Answer struct {
	Candidate *Candidate `json:"card,omitempty"`
	Refused   string     `json:"refused,omitempty"` // why a leader doesn't step down, or a candidate is not warm
	Warming   bool       `json:"warming,omitempty"` // it has begun: another answer follows
}

func (q request) encode() []byte {
	q.Version = version
	b, err := json.Marshal(q)
	if err != nil { // strings and numbers
		panic("elector: a request that can't be encoded: " + err.Error())
	}
	return b
}

func parseRequest(s string) (request, error) {
	var q request
	if len(s) > protocol.MaxMessage {
		return q, fmt.Errorf("elector: request of %d bytes: too long to be one of ours", len(s))
	}
	if err := json.Unmarshal([]byte(s), &q); err != nil {
		return request{}, fmt.Errorf("elector: not a request: %w", err)
	}
	if q.Version < 1 || q.Kind == "" || q.Election == "" {
		return request{}, errors.New("elector: not a request: version, kind or election is missing")
	}
	if q.Nonce != "" && protocol.CheckWord("", q.Nonce, 64, "{}:*?[]") != nil {
		return request{}, errors.New("elector: not a request: its nonce can't be a channel's name")
	}
	if q.To != "" && protocol.CheckWord("", q.To, 64, "") != nil {
		return request{}, errors.New("elector: not a request: no candidate can be called that")
	}
	q.For = max(0, q.For)
	q.Note = protocol.Clip(q.Note, protocol.MaxReason)
	if q.Candidate != nil {
		q.Candidate.bound()
	}
	return q, nil
}

func (a Answer) encode() []byte {
	b, err := json.Marshal(a)
	if err != nil { // strings and numbers
		panic("elector: an answer that can't be encoded: " + err.Error())
	}
	return b
}

func parseAnswer(s string) (Answer, error) {
	var a Answer
	if len(s) > protocol.MaxMessage {
		return a, fmt.Errorf("elector: answer of %d bytes: too long to be one of ours", len(s))
	}
	if err := json.Unmarshal([]byte(s), &a); err != nil {
		return Answer{}, fmt.Errorf("elector: not an answer: %w", err)
	}
	if a.Candidate != nil {
		if a.Candidate.ID == "" || a.Candidate.Incarnation == "" {
			return Answer{}, errors.New("elector: not an answer: a candidate without an id")
		}
		a.Candidate.bound()
	}
	return a, nil
}

// maxNodes is more than any candidate has.
const maxNodes = 15

// MaxRefusal bounds the texts of a Node, in bytes: those of all nodes fit into a message.
const MaxRefusal = 250

// bound limits what a candidate claims, and how long its texts are: it decides who is
// preferred, and is kept.
func (c *Candidate) bound() {
	c.RunningFor, c.HealthyFor = max(0, c.RunningFor), max(0, c.HealthyFor)
	c.RestFor, c.Lease, c.Succession = max(0, c.RestFor), max(0, c.Lease), protocol.Clip(c.Succession, 64)
	c.Detail, c.RestWhy, c.PID = protocol.Clip(c.Detail, protocol.MaxDetail), protocol.Clip(c.RestWhy, protocol.MaxDetail), max(0, c.PID)
	c.Cordoned = c.Cordoned.Bounded()
	c.ID, c.Incarnation = protocol.Clip(c.ID, protocol.MaxName), protocol.Clip(c.Incarnation, 64)
	c.Advertise, c.Version = protocol.Clip(c.Advertise, protocol.MaxAdvertise), protocol.Clip(c.Version, protocol.MaxAdvertise)
	c.Outdated = protocol.Clip(c.Outdated, protocol.MaxAdvertise)
	c.Host, c.Role = protocol.Clip(c.Host, protocol.MaxAdvertise), protocol.Clip(c.Role, 64)
	c.Nodes = slices.Clone(c.Nodes[:min(len(c.Nodes), maxNodes)])
	for i, n := range c.Nodes {
		c.Nodes[i] = Node{
			Name: protocol.Clip(n.Name, protocol.MaxName), Identity: protocol.Clip(n.Identity, 16),
			Refusal: protocol.Clip(n.Refusal, MaxRefusal), Remedy: protocol.Clip(n.Remedy, MaxRefusal),
		}
	}
}

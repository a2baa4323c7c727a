package elector

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// CandidateStatus is a candidate's answer to a roll call.
type CandidateStatus struct {
	ID          string `json:"id"`
	Incarnation string `json:"incarnation"` // tells two lives of one id apart
	Advertise   string `json:"advertise,omitempty"`
	Version     string `json:"version,omitempty"`
	Host        string `json:"host,omitempty"`
	Role        Role   `json:"role"`
	Token       uint64 `json:"token,omitempty"` // of the term that it serves
	Healthy     bool   `json:"healthy"`
	Detail      string `json:"detail,omitempty"` // the probe's words, or why it can't take part
	Priority    int    `json:"priority,omitempty"`
	// RunningFor and HealthyFor are durations, so that no clocks of two machines are
	// compared.
	RunningFor time.Duration `json:"running_ns"`
	HealthyFor time.Duration `json:"healthy_for_ns,omitempty"`
	// Nodes are the Redis nodes that it votes with, in the order of its list.
	Nodes []VotingNode `json:"nodes,omitempty"`
}

// question is what goes over the channel <prefix>:{<election>}:ask. Whoever may
// publish there can have a leader hand over, as an operator does, again and
// again; all else costs an answer at most.
type question struct {
	Version  int    `json:"v"`
	Kind     string `json:"kind"`
	Election string `json:"election"`
	Nonce    string `json:"nonce,omitempty"` // the answers go to the channel that ends with it
	// of handOver
	Token uint64 `json:"token,omitempty"` // whose term is meant
	To    string `json:"to,omitempty"`    // incarnation; "": anybody
	Note  string `json:"note,omitempty"`
	// of card
	Card *CandidateStatus `json:"card,omitempty"`
}

// The kinds of questions.
const (
	askRollCall = "roll-call" // who is there?
	callCards   = "cards"     // a leader's roll call: everybody may hear the answers
	askHandOver = "hand-over" // leader, step down
	sayCard     = "card"      // this is me; goes out when it changes, if the Succession needs it
	sayGone     = "gone"      // this was me
	sayPaused   = "paused"    // nobody new is elected
	sayResumed  = "resumed"
)

// answer is what comes back.
type answer struct {
	Card    *CandidateStatus `json:"card,omitempty"`
	Refused string           `json:"refused,omitempty"` // why a leader doesn't step down
	Node    int              `json:"-"`
}

func (q question) encode() []byte {
	q.Version = eventVersion
	b, err := json.Marshal(q)
	if err != nil { // strings and numbers
		panic("elector: a question that can't be encoded: " + err.Error())
	}
	return b
}

func parseQuestion(s string) (question, error) {
	var q question
	if len(s) > maxEvent {
		return q, fmt.Errorf("elector: question of %d bytes: too long to be one of ours", len(s))
	}
	if err := json.Unmarshal([]byte(s), &q); err != nil {
		return question{}, fmt.Errorf("elector: not a question: %w", err)
	}
	if q.Version < 1 || q.Kind == "" || q.Election == "" {
		return question{}, errors.New("elector: not a question: version, kind or election is missing")
	}
	if q.Nonce != "" && checkWord("", q.Nonce, 64, "{}:*?[]") != nil {
		return question{}, errors.New("elector: not a question: its nonce can't be a channel's name")
	}
	if q.To != "" && checkWord("", q.To, 64, "") != nil {
		return question{}, errors.New("elector: not a question: nobody can be called that")
	}
	q.Note = clip(q.Note, maxReason)
	if q.Card != nil {
		q.Card.tame()
	}
	return q, nil
}

func (a answer) encode() []byte {
	b, err := json.Marshal(a)
	if err != nil { // strings and numbers
		panic("elector: an answer that can't be encoded: " + err.Error())
	}
	return b
}

func parseAnswer(s string) (answer, error) {
	var a answer
	if len(s) > maxEvent {
		return a, fmt.Errorf("elector: answer of %d bytes: too long to be one of ours", len(s))
	}
	if err := json.Unmarshal([]byte(s), &a); err != nil {
		return answer{}, fmt.Errorf("elector: not an answer: %w", err)
	}
	if a.Card != nil {
		if a.Card.ID == "" || a.Card.Incarnation == "" {
			return answer{}, errors.New("elector: not an answer: a card without an id")
		}
		a.Card.tame()
	}
	return a, nil
}

// tame bounds what a card claims, and how long its words are: it decides who is
// asked first, and is kept.
func (c *CandidateStatus) tame() {
	c.RunningFor, c.HealthyFor = max(0, c.RunningFor), max(0, c.HealthyFor)
	c.Detail = clip(c.Detail, maxDetail)
	c.ID, c.Incarnation = clip(c.ID, maxName), clip(c.Incarnation, 64)
	c.Advertise, c.Version = clip(c.Advertise, maxAdvertise), clip(c.Version, maxAdvertise)
	c.Host, c.Role = clip(c.Host, maxAdvertise), Role(clip(string(c.Role), 64))
	c.Nodes = tameNodes(c.Nodes)
}

package peers

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

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
	return protocol.Encode(q)
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
	return protocol.Encode(a)
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

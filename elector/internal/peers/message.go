package peers

import (
	"encoding/json"

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

// parseRequest returns nil for a payload that is no request. Of one with another protocol it returns the version only.
func parseRequest(s string) *request {
	if len(s) > protocol.MaxMessage {
		return nil
	}
	var q request
	err := json.Unmarshal([]byte(s), &q)
	switch {
	// Every protocol has the frame of a roll call, and of its answer.
	case q.Version > 0 && q.Version != protocol.Version && q.Kind != rollCall:
		return &request{Version: q.Version}
	case err != nil, q.Version < 1, q.Kind == "", q.Election == "",
		q.Nonce != "" && protocol.CheckWord("", q.Nonce, 64, "{}:*?[]") != nil, // part of a channel's name
		q.To != "" && protocol.CheckWord("", q.To, 64, "") != nil:
		return nil
	}
	q.Note = protocol.Clip(q.Note, protocol.MaxReason)
	if q.Candidate != nil {
		q.Candidate.bound()
	}
	return &q
}

func (a Answer) encode() []byte {
	a.Version = protocol.Version
	return protocol.Encode(a)
}

// parseAnswer returns false for what is no answer, and of one with another protocol the version only.
func parseAnswer(s string) (a Answer, ok bool) {
	if len(s) > protocol.MaxMessage {
		return a, false
	}
	err := json.Unmarshal([]byte(s), &a)
	switch c := a.Candidate; {
	case a.Version > 0 && a.Version != protocol.Version:
		return Answer{Version: a.Version}, true
	case err != nil, a.Version < 1, c != nil && (c.ID == "" || c.Incarnation == ""):
		return Answer{}, false
	case c != nil:
		c.bound()
	}
	return a, true
}

package protocol

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Status is the kind of answer that one node gave in a round.
type Status string

// The answers of the scripts; Unknown stands for no answer.
const (
	Unknown    Status = "unknown" // no answer (yet), or an error
	Won        Status = "won"
	Free       Status = "free" // a claim that requests no token would have won
	SameServer Status = "same" // the node already holds this very claim: one server, two addresses
	Held       Status = "held"
	Paused     Status = "paused"
	Reserved   Status = "kept" // for the heir of the last leader, for a short time
	Abstains   Status = "new"  // the node is new or lost its data: it does not vote for one lease
	Renewed    Status = "mine"
	Planted    Status = "planted" // the node had lost the lock, and it was put back: no vote
	NoLock     Status = "gone"
	Taken      Status = "taken"
	Raised     Status = "raised"
	Released   Status = "released"
	Recorded   Status = "recorded"
)

// failed is what a script answers in place of a Status if it could not do its work for an election.
const failed = "error"

// GoesFirst is the note of a node whose lock another candidate holds, and which names the
// sender as the candidate that goes first after that term.
const GoesFirst = "next"

// Forgot is the note of a node on which a renewal planted the lock, and which had lost
// all its data, and granted nothing since.
const Forgot = "forgot"

// Answer is what one node answered in a round.
type Answer struct {
	Status      Status
	Fence       uint64        // of Won: the token; else the node's counter
	Holder      string        // the lock value in the way; of Renewed: the value that the node kept
	Left        time.Duration // how long what is in the way still lives
	Subscribers int           // of the channel for requests to candidates; 0: the sender is none of them; -1: not known
	Note        string        // a new node's marker, a pause's note, GoesFirst, or Forgot
	ID          string        // the node's identity; empty: not known
	Err         error         // of Unknown; of an answer to a claim: why the node could not have granted it anyway
}

// answerLua makes an answer of the fields that a script names: a line, and only if need be a list, which costs
// several times as much. parseAnswer reads it.
const answerLua = `local function answer(a)
  local line = a.status .. ' ' .. (a.fence or '0') .. ' ' .. (a.id or '')
  if not (a.holder or a.left or a.note) then return line end
  return {line, a.holder or '', a.left or 0, a.subscribers or -1, a.note or '', a.refused or ''}
end
`

// MaxToken is the highest token that a claim grants. A claim raises the counters of all nodes to the highest that any of
// them granted: beyond this one they would never grant another.
const MaxToken = 1<<53 - 2

func parseAnswer(v any) Answer {
	f, list := v.([]any)
	if !list {
		f = []any{v}
	}
	if len(f) == 2 && f[0] == failed {
		return Answer{Status: Unknown, Err: rediserr.Refusal(fmt.Sprint(f[1]))}
	}
	if list && len(f) != 6 {
		return Answer{Status: Unknown, Err: unexpected(v)}
	}
	line, _ := f[0].(string)
	status, rest, _ := strings.Cut(line, " ")
	counter, id, ok := strings.Cut(rest, " ")
	fence, err := strconv.ParseUint(counter, 10, 64)
	if !ok || err != nil || Status(status) == Won && fence > MaxToken {
		return Answer{Status: Unknown, Err: unexpected(v)}
	}
	a := Answer{Status: Status(status), Fence: fence, Subscribers: -1, ID: ParseIdentity(id)}
	if list {
		a.Holder, _ = f[1].(string)
		left, _ := f[2].(int64) // a PTTL: a key set by hand may live for longer than a Duration can hold
		a.Left = time.Duration(min(max(left, -1), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
		subscribers, _ := f[3].(int64)
		a.Subscribers = int(subscribers)
		a.Note, _ = f[4].(string)
		if refused, _ := f[5].(string); refused != "" {
			a.Err = rediserr.Refusal(refused)
		}
	}
	return a
}

// ParseReply parses what a call for n elections returned for the i-th.
func ParseReply(v any, err error, i, n int) Answer {
	answers, ok := v.([]any)
	switch {
	case err != nil:
		return Answer{Status: Unknown, Err: err}
	case !ok || len(answers) != n:
		return Answer{Status: Unknown, Err: unexpected(v)}
	}
	return parseAnswer(answers[i])
}

// unexpected is the error of an answer that no script of ours gives: another
// program uses our key, or a proxy answered.
func unexpected(v any) error { return fmt.Errorf("unexpected answer %.200q", fmt.Sprint(v)) }

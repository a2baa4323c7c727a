package protocol

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Status is what one node answered in a round.
type Status string

// What the scripts answer, and what stands for no answer.
const (
	Unknown      Status = "unknown" // no answer (yet), or an error
	Won          Status = "won"
	SameServer   Status = "same" // the claim met itself: one server under two addresses
	Held         Status = "held"
	Paused       Status = "paused"
	Reserved     Status = "kept"  // for the heir of the last leader, for a short time
	NewerVersion Status = "newer" // a version has led that the sender has to judge, or is older than
	Abstains     Status = "new"   // the node forgot, or is new: it does not vote for a lease
	Renewed      Status = "mine"
	Planted      Status = "planted" // lost there and put back: no vote in its round
	NoLock       Status = "gone"
	Taken        Status = "taken"
	Raised       Status = "raised"
	Released     Status = "released"
	Recorded     Status = "recorded"
	Identified   Status = "met" // queried for its identity alone
)

// failed is what a script answers in place of a Status where it could not do its work for an election.
const failed = "error"

// GoesFirst is the note of a node that holds for another, and names the sender as the
// one that goes first after it.
const GoesFirst = "next"

// Forgot is the note of a node where a renewal planted the lock again because the
// node had lost the counter too, and not the lock alone.
const Forgot = "forgot"

// Answer is what one node answered in a round.
type Answer struct {
	Status      Status
	Fence       uint64        // a token on Won, else the node's counter
	Holder      string        // the lock value that stood in the way; of Renewed: that a node did not replace
	Left        time.Duration // of what stands in the way
	Waiters     int           // listening on the wake channel; -1 not known
	Subscribers int           // listening on the events channel; -1 not known
	Note        string        // the marker of a new node, the note of a pause, Next where held
	ID          string        // the node's identity; empty: not known
	Highest     string        // what the version's key holds, on a claim that was lost
	Outdated    bool          // the sender must not lead, by that
	Settled     bool          // it has been known for so long that no lock value names an older one
	Err         error
}

// parseAnswer reads what a script returned for one election, for which it had these arguments.
func parseAnswer(v any, args []any) Answer {
	if v == int64(AsShown) && len(args) == renewArity {
		return confirmed(args)
	}
	fields, ok := v.([]any)
	if !ok || len(fields) < 2 {
		return Answer{Status: Unknown, Err: unexpected(v)}
	}
	status, ok := fields[0].(string)
	if !ok {
		return Answer{Status: Unknown, Err: unexpected(v)}
	}
	if status == failed {
		return Answer{Status: Unknown, Err: rediserr.Refusal(fmt.Sprint(fields[1]))}
	}
	fence, err := strconv.ParseUint(fmt.Sprint(fields[1]), 10, 64)
	if err != nil {
		return Answer{Status: Unknown, Err: unexpected(v)}
	}
	a := Answer{Status: Status(status), Fence: fence, Waiters: -1, Subscribers: -1}
	if len(fields) > 2 {
		a.Holder, _ = fields[2].(string)
	}
	if len(fields) == 5 { // of a renewal
		a.Note, _ = fields[3].(string)
		a.ID = ParseIdentity(fields[4])
	}
	if len(fields) > 6 {
		a.Left = millis(fields[3])
		a.Waiters, a.Subscribers = int(integer(fields[4])), int(integer(fields[5]))
		a.Note, _ = fields[6].(string)
	}
	if len(fields) > 7 {
		a.ID = ParseIdentity(fields[7])
	}
	if len(fields) > 8 {
		a.Highest, _ = fields[8].(string)
	}
	return a
}

// confirmed is what a node answers to a renewal to which all is as that shows it.
func confirmed(args []any) Answer {
	a := Answer{Status: Renewed, Waiters: -1, Subscribers: -1}
	a.Fence, _ = args[RenewCounter].(uint64)
	a.ID, _ = args[RenewShown].(string)
	return a
}

// ParseReply reads what a call for n elections returned for one of them, which had these arguments.
func ParseReply(v any, err error, i, n int, args []any) Answer {
	answers, ok := v.([]any)
	switch {
	case err != nil:
		return Answer{Status: Unknown, Err: err}
	case !ok || len(answers) != n:
		return Answer{Status: Unknown, Err: unexpected(v)}
	}
	return parseAnswer(answers[i], args)
}

func integer(v any) int64 { n, _ := v.(int64); return n }

// millis is a PTTL. A key set by hand may live for longer than a Duration can hold.
func millis(v any) time.Duration {
	return time.Duration(min(max(integer(v), -1), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// RefusedClaim is what a node answers to a claim for one election, while another candidate
// holds its lock for so long still: for tests that stand in for a node.
func RefusedClaim(holder string, left time.Duration) []any {
	return []any{[]any{string(Held), "0", holder, left.Milliseconds(), int64(-1), int64(-1), ""}}
}

// unexpected is an answer that no script of ours gives: another program under
// our key, or a proxy.
func unexpected(v any) error { return fmt.Errorf("unexpected answer %.200q", fmt.Sprint(v)) }

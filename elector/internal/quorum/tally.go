package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Tally is the outcome of a round.
type Tally struct {
	Answers []protocol.Answer // by node
	RTT     time.Duration
	nodes   *Nodes
}

// Count returns how many nodes gave one of these answers.
func (t Tally) Count(statuses ...protocol.Status) int {
	n := 0
	for _, a := range t.Answers {
		for _, s := range statuses {
			if a.Status == s {
				n++
			}
		}
	}
	return n
}

// Majority reports whether a majority gave one of these answers.
func (t Tally) Majority(statuses ...protocol.Status) bool {
	return t.Count(statuses...) >= t.nodes.Majority()
}

// Answered reports whether a majority has answered, with whatever answer.
func (t Tally) Answered() bool { return len(t.Answers)-t.Count(protocol.Unknown) >= t.nodes.Majority() }

// Written reports whether a renewal wrote its lock value to a majority. A node that refuses the new
// value may still renew the lease.
func (t Tally) Written() bool {
	n := 0
	for _, a := range t.Answers {
		if a.Status == protocol.Renewed && a.Holder == "" {
			n++
		}
	}
	return n >= t.nodes.Majority()
}

// Named returns how many nodes name the sender as the candidate that goes first.
func (t Tally) Named() int {
	n := 0
	for _, a := range t.Answers {
		if a.Status == protocol.Held && a.Note == protocol.GoesFirst {
			n++
		}
	}
	return n
}

// Locks returns the locks that refused the sender.
func (t Tally) Locks() []protocol.Lock {
	var all []protocol.Lock
	for _, a := range t.Answers {
		if a.Status == protocol.Held {
			all = append(all, protocol.Lock{Value: a.Holder, Left: a.Left})
		}
	}
	return all
}

// failed reports whether err is the error of a node: the end of a round, and of the wish for a request,
// are none.
func failed(err error) bool {
	return err != nil && !errors.Is(err, errOverruled) && !errors.Is(err, errUnwanted)
}

// Errors returns the errors of the nodes that gave no answer, each with the node's name.
func (t Tally) Errors() []error {
	var all []error
	for i, a := range t.Answers {
		if a.Status == protocol.SameServer {
			all = append(all, t.nodes.NodeError(i, rediserr.ErrSameServer))
		} else if failed(a.Err) {
			all = append(all, t.nodes.NodeError(i, a.Err))
		}
	}
	return all
}

// Lost reports whether a connection to a node was lost, or could not be made.
func (t Tally) Lost() bool {
	return slices.ContainsFunc(t.Answers, func(a protocol.Answer) bool {
		return failed(a.Err) && !rediserr.Answered(a.Err) && !rediserr.TimedOut(a.Err)
	})
}

// notHeldError is the error of a node that has lost a lock, or holds another candidate's.
type notHeldError struct{}

func (notHeldError) Error() string { return "the node no longer holds the lock" }

// RedisError makes it a redis.Error: the node has answered.
func (notHeldError) RedisError() {}

// NotConfirmed returns the reasons why nodes did not confirm a renewal, each with the node's
// name: an error, no answer in time, or that the lock is gone.
func (t Tally) NotConfirmed() []error {
	var all []error
	for i, a := range t.Answers {
		switch {
		case a.Status == protocol.Renewed:
		case failed(a.Err):
			all = append(all, t.nodes.NodeError(i, a.Err))
		case a.Status == protocol.Unknown:
			all = append(all, t.nodes.NodeError(i, context.DeadlineExceeded))
		default:
			all = append(all, t.nodes.NodeError(i, notHeldError{}))
		}
	}
	return all
}

// Tally returns the outcome of a round in which these nodes gave these answers.
func (ns *Nodes) Tally(answers []protocol.Answer, rtt time.Duration) Tally {
	return Tally{Answers: answers, RTT: rtt, nodes: ns}
}

package quorum

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// round counts the answers of the nodes to one request of an election. It belongs to one goroutine, and
// gets the answers in any order. Once it is over, the answers of the other nodes count as unknown.
type round struct {
	Tally

	yes     protocol.Status // the answer that a majority has to give
	every   bool            // decided only when all expected nodes have answered
	started time.Time
	pending []int  // by node: outcomes that are still to come
	ignored []bool // nodes that are not expected to answer: their last request failed
	ended   bool
	// patience is for how long the other nodes are waited for at least, once a majority has answered.
	patience time.Duration
}

var errOverruled = errors.New("no answer before the round ended")

func newRound(ns *nodes.Nodes, yes protocol.Status, every bool) *round {
	n := ns.Len()
	r := &round{
		Tally: Tally{Answers: make([]protocol.Answer, n), nodes: ns}, yes: yes, every: every, started: time.Now(),
		pending: make([]int, n), ignored: make([]bool, n), patience: nodes.MinExtraWait,
	}
	for i := range r.Answers {
		r.Answers[i] = noAnswer
	}
	return r
}

var noAnswer = protocol.Answer{Status: protocol.Unknown, Subscribers: -1}

// record counts the outcome of one request to a node.
func (r *round) record(node int, a protocol.Answer) {
	if r.pending[node]--; r.Answers[node].Status == protocol.Unknown && !r.ended {
		r.Answers[node] = a
	}
}

// over reports whether the round is decided and no expected answer is missing, or no request is left to
// wait for.
func (r *round) over() bool {
	agreed := r.Count(r.yes)
	same := max(agreed, len(r.Answers)-r.Count(protocol.Unknown)-agreed)
	decided := same >= r.nodes.Majority() || r.outstanding() == 0
	return r.ended || decided && !(r.every && r.expects())
}

// expects reports whether a node has a request under way that it is expected to answer.
func (r *round) expects() bool {
	for node, n := range r.pending {
		if n > 0 && r.Answers[node].Status == protocol.Unknown && !r.ignored[node] {
			return true
		}
	}
	return false
}

// await counts the answers until the round is over, or the other nodes have had their time. Each passes
// note first.
func (r *round) await(answers <-chan *nodes.Request, note func(*nodes.Request)) {
	var others <-chan time.Time
	for !r.over() {
		if r.Answered() && others == nil {
			others = time.After(max(r.patience, nodes.WaitFactor*time.Since(r.started)))
		}
		select {
		case a := <-answers:
			note(a)
			r.record(a.Node, a.Answer)
		case <-others:
			r.ended = true
		}
	}
	r.end()
}

func (r *round) end() {
	r.ended, r.RTT = true, time.Since(r.started)
	for i, a := range r.Answers {
		if a.Status == protocol.Unknown && a.Err == nil {
			r.Answers[i].Err = errOverruled
		}
	}
}

func (r *round) outstanding() (n int) {
	for _, k := range r.pending {
		n += k
	}
	return n
}

// Tally is the outcome of a round.
type Tally struct {
	Answers []protocol.Answer // by node
	RTT     time.Duration
	nodes   *nodes.Nodes
}

// Count returns how many nodes gave one of these answers.
func (t Tally) Count(statuses ...protocol.Status) (n int) {
	for _, a := range t.Answers {
		if slices.Contains(statuses, a.Status) {
			n++
		}
	}
	return n
}

// Majority reports whether a majority gave one of these answers.
func (t Tally) Majority(statuses ...protocol.Status) bool {
	return t.Count(statuses...) >= t.nodes.Majority()
}

// Answered reports whether a majority has answered, with whatever answer.
func (t Tally) Answered() bool {
	return len(t.Answers)-t.Count(protocol.Unknown) >= t.nodes.Majority()
}

// NamesUsNext returns how many nodes name the sender as the candidate that goes first.
func (t Tally) NamesUsNext() (n int) {
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
	return err != nil && !errors.Is(err, errOverruled) && !errors.Is(err, nodes.ErrUnwanted)
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
	return slices.ContainsFunc(t.Answers, func(a protocol.Answer) bool { return Lost(a.Err) })
}

// Lost reports whether err is that of a connection that was lost, or could not be made.
func Lost(err error) bool { return failed(err) && !rediserr.Answered(err) && !rediserr.TimedOut(err) }

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
		case a.Status == protocol.SameServer:
			all = append(all, t.nodes.NodeError(i, rediserr.ErrSameServer))
		default:
			all = append(all, t.nodes.NodeError(i, notHeldError{}))
		}
	}
	return all
}

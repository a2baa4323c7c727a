package elector

import (
	"errors"
	"fmt"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// NodeError is what went wrong on one Redis node. errors.As finds the first NodeError in
// an error that names nodes; a QuorumError lists them all.
type NodeError struct {
	Node    string // as NodeStatus names it
	Problem string // what went wrong, and what to do about it where that is known
	Err     error  // the node's answer, or why there is no answer
}

func (e *NodeError) Error() string { return e.Node + ": " + e.Problem }

func (e *NodeError) Unwrap() error { return e.Err }

// QuorumError is the error of a request that some nodes, or all, did not grant. It matches
// ErrUnreachable when no majority granted the request, and ErrDenied or ErrPermanent when
// that is the cause. If a majority granted the request nevertheless, it matches none of these.
type QuorumError struct {
	Problem string       // what failed; the reasons are in Nodes
	Nodes   []*NodeError // those that failed, in the order of the quorum

	kinds []error // what errors.Is finds
}

func (e *QuorumError) Error() string { return "elector: " + e.problem() }

func (e *QuorumError) problem() string {
	if len(e.Nodes) == 0 {
		return e.Problem
	}
	return e.Problem + ": " + joinNodes(e.Nodes).Error()
}

// Unwrap returns what errors.Is and errors.As look at: the kind, and the nodes' errors.
func (e *QuorumError) Unwrap() []error {
	all := make([]error, 0, len(e.kinds)+len(e.Nodes))
	all = append(all, e.kinds...)
	for _, n := range e.Nodes {
		all = append(all, n)
	}
	return all
}

// nodeErrors returns the errors of the nodes as NodeErrors, without those that are nil.
func nodeErrors(errs []error) []*NodeError {
	var all []*NodeError
	for _, err := range errs {
		var node *rediserr.NodeError
		switch {
		case err == nil:
		case errors.As(err, &node):
			all = append(all, &NodeError{Node: node.Node, Problem: node.Problem(), Err: node.Err})
		default: // a bug in this package: every error of a node names the node
			all = append(all, &NodeError{Node: "a Redis node", Problem: err.Error(), Err: err})
		}
	}
	return all
}

// joinNodes joins the errors of several nodes, a line each; nil for none.
func joinNodes(nodes []*NodeError) error {
	all := make([]error, len(nodes))
	for i, n := range nodes {
		all[i] = n
	}
	return errors.Join(all...)
}

// checkOpen returns ErrClosed once the nodes are closed.
func checkOpen(nodes *quorum.Nodes) error {
	if nodes.Life().Err() != nil {
		return ErrClosed
	}
	return nil
}

// answersOf returns how many nodes granted a request.
func answersOf(errs []error) (answers int) {
	for _, e := range errs {
		if e == nil {
			answers++
		}
	}
	return answers
}

// noMajority returns the error of a request that no majority of the nodes has granted.
func noMajority(nodes *quorum.Nodes, errs []error) error {
	failed := replies{nodes: nodes.Len()}
	for _, err := range errs {
		if err != nil {
			failed.count(err)
		}
	}
	return failed.noMajority(errs)
}

// replies counts how nodes failed a request. A node that refuses the request, mostly because of a
// missing right, is not down, and restarting it does not help.
type replies struct{ nodes, denied, refused, unanswered int }

func (r *replies) count(err error) {
	switch {
	case rediserr.Denied(err):
		r.denied++
		r.refused++
	case rediserr.Answered(err):
		r.refused++
	default:
		r.unanswered++
	}
}

// noMajority returns the error of a request that failed on the counted nodes.
func (r *replies) noMajority(errs []error) *QuorumError {
	e := &QuorumError{Problem: Problem(ErrUnreachable), Nodes: nodeErrors(errs), kinds: []error{ErrUnreachable}}
	majority := r.nodes/2 + 1
	switch {
	case r.nodes-r.denied < majority:
		e.Problem, e.kinds = Problem(ErrDenied), []error{ErrDenied, ErrUnreachable}
	case r.nodes-r.refused < majority:
		e.Problem = "a majority of the Redis nodes answered with an error"
	case r.nodes-r.unanswered >= majority:
		e.Problem = "no majority of the Redis nodes can be used"
	}
	return e
}

// refusedError is an ErrRefused with the reason.
type refusedError struct{ why string }

func newRefusal(format string, args ...any) error {
	return &refusedError{fmt.Sprintf(format, args...)}
}

func (e *refusedError) Error() string   { return ErrRefused.Error() + ": " + e.why }
func (e *refusedError) Unwrap() error   { return ErrRefused }
func (e *refusedError) problem() string { return e.why }

// failure is any other error of this package, with a kind that errors.Is finds, or nil.
type failure struct{ kind, err error }

// failed makes an error from its kind and its text, without the name of the package.
func failed(kind error, format string, args ...any) error {
	return &failure{kind, fmt.Errorf(format, args...)}
}

func (e *failure) Error() string   { return "elector: " + e.err.Error() }
func (e *failure) problem() string { return e.err.Error() }

func (e *failure) Unwrap() []error {
	if e.kind == nil {
		return []error{e.err}
	}
	return []error{e.kind, e.err}
}

// Problem returns the text of an error of this package for a person who does not know the
// package: without "elector: ", and for an ErrRefused only the reason. The text of any other
// error, also of one that wraps an error of this package, is returned as it is. Problems of
// several nodes are a line each.
func Problem(err error) string {
	switch err := err.(type) { //nolint:errorlint // what wraps an error of ours has a text of its own
	case nil:
		return ""
	case interface{ problem() string }:
		return err.problem()
	default:
		return err.Error()
	}
}

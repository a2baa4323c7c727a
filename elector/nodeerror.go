package elector

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// NodeError is the error of one Redis node: Node names it as NodeStatus does, Problem is what went wrong and what to do
// about it where that is known, and Err is the node's answer, or why there is none. errors.As finds the first NodeError
// in an error that names nodes.
type NodeError = rediserr.NodeError

// nodeErrors returns the errors of the nodes as NodeErrors, without those that are nil.
func nodeErrors(errs []error) []*NodeError {
	var all []*NodeError
	for _, err := range errs {
		node, ok := errors.AsType[*NodeError](err)
		switch {
		case ok:
			all = append(all, node)
		case err != nil: // a bug in this package: every error of a node names the node
			all = append(all, &NodeError{Node: "a Redis node", Err: err})
		}
	}
	return all
}

// joinNodes joins the errors of several nodes; nil for none.
func joinNodes(errs []error) error {
	if all := nodeErrors(errs); len(all) > 0 {
		return nodesError(all)
	}
	return nil
}

// nodesError are the errors of several nodes. Its text has a line for each problem, with all its nodes.
type nodesError []*NodeError

func (e nodesError) Error() string {
	var problems, lines []string
	for _, n := range e {
		problem := n.Problem()
		if i := slices.Index(problems, problem); i >= 0 {
			lines[i] += ", " + n.Node
			continue
		}
		problems, lines = append(problems, problem), append(lines, n.Node)
	}
	for i, problem := range problems {
		lines[i] += ": " + problem
	}
	return strings.Join(lines, "\n")
}

func (e nodesError) Unwrap() (all []error) {
	for _, n := range e {
		all = append(all, n)
	}
	return all
}

// onNodes adds to an error the nodes that caused it.
func onNodes(what error, errs []error) error {
	if nodes := joinNodes(errs); nodes != nil {
		return fmt.Errorf("%w: %w", what, nodes)
	}
	return what
}

// noMajority returns the error of a request that no majority of n nodes has granted. A node that
// refuses the request for want of a right is not down, and restarting it does not help.
func noMajority(n int, errs []error) error {
	if n-count(errs, rediserr.Denied) < protocol.Majority(n) {
		return onNodes(ErrDenied, errs)
	}
	return onNodes(ErrUnreachable, errs)
}

// errNoQuorum is the error of zero values.
var errNoQuorum = errors.New("the quorum is nil, or a zero value: make one with NewQuorum or Open, and an Elector with New")

// checkOpen returns ErrClosed once the nodes are closed.
func checkOpen(nodes *nodes.Nodes) error {
	if nodes == nil {
		return errNoQuorum
	}
	if nodes.Life().Err() != nil {
		return ErrClosed
	}
	return nil
}

// answersOf returns how many nodes granted a request.
func answersOf(errs []error) int { return count(errs, func(err error) bool { return err == nil }) }

// count returns of how many is returns true.
func count[T any](all []T, is func(T) bool) (n int) {
	for _, one := range all {
		if is(one) {
			n++
		}
	}
	return n
}

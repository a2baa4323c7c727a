package elector

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// Forget removes everything that the nodes keep of an election in which no candidate will
// campaign any more: its counter, its history, a pause. Elections no longer lists it then.
// If the name is used again, its tokens begin at the wall clock of the first candidate: keep the
// election while a resource still compares its tokens. A candidate that was cut off from Redis
// and returns creates the keys again.
//
// All nodes must answer, since a node that is left out would bring the election back. Forget
// blocks for a roll call and three round trips, at most 7.5 s, and needs the rights of a candidate.
// The error is ErrRefused, and nothing has changed, while a candidate answers or is subscribed, or
// a node holds a lock. It is also ErrRefused when a candidate is elected meanwhile: the text then
// names the nodes from which the data was removed. It is ErrUnreachable when no majority of the nodes
// answered. Any other error names the nodes that failed, and whether anything was removed: call
// Forget again.
func (el *Election) Forget(ctx context.Context) error {
	all, err := el.Candidates(ctx)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		ids := make([]string, len(all))
		for i, c := range all {
			ids[i] = c.ID
		}
		return newRefusal("there are candidates: %s; stop them first", strings.Join(ids, ", "))
	}
	if el.nodes.Listeners(ctx, el.keys.Ask, statusTimeout) > 0 {
		return newRefusal("a candidate is subscribed and does not answer: it may hang; stop it first")
	}
	views := registry.Read(ctx, el.nodes, el.keys, statusTimeout)
	errs := make([]error, len(views))
	for i, v := range views {
		switch errs[i] = v.Err; {
		case v.Holder != "":
			return newRefusal("%s holds a lock of this election: wait until it has lapsed", v.Node)
		case v.Foreign != "":
			return newRefusal("%s holds %s under %s, which no candidate wrote: remove that first", v.Node, v.Foreign, el.keys.Lock)
		}
	}
	if err := partialFailureAs(el.nodes, errs, "nothing was removed, since what a node that does not answer keeps would bring the election back"); err != nil {
		return err
	}
	errs = registry.Forget(ctx, el.nodes, el.keys, statusTimeout)
	if slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, registry.ErrHeld) }) {
		return newRefusal("a candidate was elected meanwhile%s", removedFrom(el.nodes, errs))
	}
	return partialFailureAs(el.nodes, errs, "removed, but not from all nodes")
}

// removedFrom names the nodes that have removed the election: they abstain for a lease, and the
// history there is lost. Empty: none has.
func removedFrom(nodes *quorum.Nodes, errs []error) string {
	var names []string
	for i, name := range nodes.Names() {
		if errs[i] == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; removed from " + strings.Join(names, ", ")
}

// partialFailureAs is like partialFailure, but with problem as the message when only a majority of the nodes did it.
func partialFailureAs(nodes *quorum.Nodes, errs []error, problem string) error {
	err := partialFailure(nodes, errs)
	var failed *QuorumError
	if errors.As(err, &failed) && !errors.Is(err, ErrUnreachable) {
		failed.Problem = problem
	}
	return err
}

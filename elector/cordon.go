package elector

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// Cordon is an operator's mark on a candidate: the candidate does not campaign, in any election
// under the Quorum's prefix, until Quorum.Uncordon. It keeps what it leads, unless it is drained.
type Cordon struct {
	// ID is the id of the candidate, or the name of a host, for all candidates on it.
	ID     string    `json:"id"`
	By     string    `json:"by,omitempty"` // the operator
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Drain makes the candidate also hand over what it leads, and a member of groups (package
	// shard) the shards that it owns, as soon as another one can take over: the last one stays.
	Drain bool `json:"drain,omitempty"`
}

// String returns who cordoned the candidate, since when and why; never empty.
func (c Cordon) String() string { return protocol.Cordon(c).String() }

// Cordon records a cordon in Redis, where it survives restarts of all candidates. It replaces an
// earlier cordon with the same ID. Running candidates learn of it within moments; a candidate that
// starts reads it before it claims. Without Drain, current leaders remain leaders.
//
// By and Reason together have at most 500 bytes; a zero Since is set to the current time. Cordon
// blocks for at most 2.5 s. The error holds the NodeError of each node that did not take the
// cordon, and matches ErrUnreachable when no majority did. It matches ErrNotRecorded when all nodes
// took the cordon, but no majority recorded it in the history (Timeline).
func (q *Quorum) Cordon(ctx context.Context, c Cordon) error {
	if err := q.checkCordon(&c); err != nil {
		return err
	}
	if c.Since.IsZero() {
		c.Since = time.Now()
	}
	c.Since = c.Since.UTC().Truncate(time.Millisecond)
	err := partialFailure(q.nodes, registry.Cordon(ctx, q.nodes, q.Prefix(), protocol.Cordon(c), statusTimeout))
	kind := eventCordoned
	if c.Drain {
		kind = eventDrained
	}
	return q.recordCordon(ctx, Event{Kind: kind, Candidate: c.ID, By: c.By, Detail: c.Reason, Time: c.Since}, err)
}

// Uncordon ends the cordon with the ID of c: its candidates campaign again at once. By and Reason
// of c tell the history who ends it and why. ended reports whether there was such a cordon. Bounds
// and errors are those of Cordon.
func (q *Quorum) Uncordon(ctx context.Context, c Cordon) (ended bool, err error) {
	if err := q.checkCordon(&c); err != nil {
		return false, err
	}
	ended, errs := registry.Uncordon(ctx, q.nodes, q.Prefix(), c.ID, statusTimeout)
	if err = partialFailure(q.nodes, errs); ended {
		at := time.Now().UTC().Truncate(time.Millisecond)
		err = q.recordCordon(ctx, Event{Kind: eventUncordoned, Candidate: c.ID, By: c.By, Detail: c.Reason, Time: at}, err)
	}
	return ended, err
}

// recordCordon records in the history what a majority of the nodes has carried out. err is the error
// of the other nodes; recordCordon adds to it when no majority recorded the event. A cordon that the
// history lacks works, but makes an incident hard to explain.
func (q *Quorum) recordCordon(ctx context.Context, ev Event, err error) error {
	if errors.Is(err, ErrUnreachable) {
		return err
	}
	ev.Version = eventVersion
	errs := registry.Record(ctx, q.nodes, protocol.KeysOfCordons(q.Prefix()), ev.encode(), recordTimeout)
	if answersOf(errs) >= q.nodes.Majority() {
		return err
	}
	var partly *QuorumError
	if errors.As(err, &partly) {
		partly.Problem += ", and not recorded in the history"
		return err
	}
	return &QuorumError{Problem: Problem(ErrNotRecorded), Nodes: nodeErrors(errs), kinds: []error{ErrNotRecorded}}
}

// checkCordon returns what is wrong with a cordon, and replaces invalid UTF-8 in its texts for JSON.
func (q *Quorum) checkCordon(c *Cordon) error {
	if err := cmp.Or(q.checkMember(c.ID), checkReason(c.By+c.Reason)); err != nil {
		return err
	}
	c.By, c.Reason = strings.ToValidUTF8(c.By, "?"), strings.ToValidUTF8(c.Reason, "?")
	return nil
}

func (q *Quorum) checkMember(id string) error {
	err := configError("", protocol.CheckWord("Prefix", q.Prefix(), protocol.MaxName, "{}"), protocol.CheckWord("ID", id, protocol.MaxName, ""))
	return cmp.Or(err, checkOpen(q.nodes))
}

// Cordons lists the cordons in force under the Quorum's prefix, by id. It queries every node, and
// blocks for at most 1.5 s. The error is ErrUnreachable when no majority answered.
func (q *Quorum) Cordons(ctx context.Context) ([]Cordon, error) {
	if err := q.checkMember("any"); err != nil {
		return nil, err
	}
	return cordonsOn(ctx, q.nodes, q.Prefix())
}

func cordonsOn(ctx context.Context, nodes *quorum.Nodes, prefix string) ([]Cordon, error) {
	byNode, errs := make([]map[string]protocol.Cordon, nodes.Len()), make([]error, nodes.Len())
	var all sync.WaitGroup
	for node := range byNode {
		all.Go(func() { byNode[node], errs[node] = registry.CordonsOn(ctx, nodes, node, prefix, statusTimeout) })
	}
	all.Wait()
	if err := partialFailure(nodes, errs); errors.Is(err, ErrUnreachable) {
		return nil, err
	}
	found := map[string]Cordon{}
	for _, cordons := range byNode {
		for id := range cordons {
			if c := protocol.CordonInForce(byNode, id); c != nil {
				found[id] = Cordon(*c)
			}
		}
	}
	list := make([]Cordon, 0, len(found))
	for _, c := range found {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Cordon) int { return cmp.Compare(a.ID, b.ID) })
	return list, nil
}

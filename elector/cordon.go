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

// Cordon is an operator's mark on a candidate: it does not campaign, in any election under the
// Quorum's prefix, until Quorum.Uncordon. A term that it serves it keeps, unless it is drained.
type Cordon struct {
	// ID is that of the candidate, or the name of a host: then of all candidates there.
	ID     string    `json:"id"`
	By     string    `json:"by,omitempty"` // who cordoned it
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Drain has it hand over what it leads, too, and the members of groups (package shard) the
	// shards that they own, as soon as another one can take it: the last one stays.
	Drain bool `json:"drain,omitempty"`
}

// String is who cordoned it, since when and why; never empty.
func (c Cordon) String() string { return protocol.Cordon(c).String() }

// Cordon records a cordon in Redis, where it survives restarts of all candidates, over the one
// with that ID that is there. Candidates that run know it within moments; a candidate that
// starts reads it before it claims. What is led now it does not change without Drain.
//
// By and Reason have at most 500 bytes together; Since is set if it is zero. It blocks for at
// most 2.5 s. The error holds the NodeError of each node that did not take it, and matches
// ErrUnreachable when no majority did. It matches ErrNotRecorded when all have, and the history
// (Timeline) does not show it.
func (q *Quorum) Cordon(ctx context.Context, c Cordon) error {
	if err := q.checkCordon(&c); err != nil {
		return err
	}
	if c.Since.IsZero() {
		c.Since = time.Now()
	}
	c.Since = c.Since.UTC().Truncate(time.Millisecond)
	err := enough(q.nodes, registry.Cordon(ctx, q.nodes, q.Prefix(), protocol.Cordon(c), statusTimeout))
	kind := eventCordoned
	if c.Drain {
		kind = eventDrained
	}
	return q.recordCordon(ctx, Event{Kind: kind, Candidate: c.ID, By: c.By, Detail: c.Reason, Time: c.Since}, err)
}

// Uncordon ends the cordon with the ID of c: its candidates campaign again at once. By and Reason
// of c are who ends it and why, for the history. ended reports whether there was one. Bounds and
// errors are those of Cordon.
func (q *Quorum) Uncordon(ctx context.Context, c Cordon) (ended bool, err error) {
	if err := q.checkCordon(&c); err != nil {
		return false, err
	}
	ended, errs := registry.Uncordon(ctx, q.nodes, q.Prefix(), c.ID, statusTimeout)
	if err = enough(q.nodes, errs); ended {
		at := time.Now().UTC().Truncate(time.Millisecond)
		err = q.recordCordon(ctx, Event{Kind: eventUncordoned, Candidate: c.ID, By: c.By, Detail: c.Reason, Time: at}, err)
	}
	return ended, err
}

// recordCordon has the nodes record what a majority has carried out; err is that of the others.
// Its own is that the history lacks it: a cordon that leaves no trace makes an incident a riddle,
// but it works.
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

// checkCordon refuses what can be no cordon, and makes its texts fit for JSON.
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

// Cordons lists the cordons in force under the Quorum's prefix, by id. It queries every node,
// for at most 1.5 s. The error is ErrUnreachable when no majority answered.
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
	if err := enough(nodes, errs); errors.Is(err, ErrUnreachable) {
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

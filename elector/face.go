package elector

import (
	"cmp"
	"context"

	"github.com/mandate-dev/mandate/elector/internal/inside"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// These functions are for other packages of the library, and not exported. Package doctor examines
// the nodes themselves; package shard stores its members there, and has one member hand a shard over
// to another without a roll call.
var _ = inside.Provide(inside.Face{
	Parts: func(q any) (*quorum.Nodes, *pubsub.Bus) {
		if q, ok := q.(*Quorum); ok && q != nil {
			return q.nodes, q.bus
		}
		return nil, nil
	},
	HandOver: func(term any, incarnation string, why error) {
		if t, ok := term.(*Term); ok && t.made() {
			t.hand(handover{to: incarnation, why: why})
		}
	},
	ConfigError: configError,
	Now:         func(ctx context.Context) any { return cmp.Or(lease.ClockFrom(ctx), lease.NewClock(nil)).Now() },
	Began: func(e, at any) {
		if e, ok := e.(*Elector); ok {
			e.since, _ = at.(lease.Stamp)
		}
	},
	Assigns: func(e any) {
		if e, ok := e.(*Elector); ok {
			e.assigns = true
		}
	},
	Claim: func(e any) {
		if e, ok := e.(*Elector); ok {
			e.claimNow()
		}
	},
	Listening: func(e any, f func()) {
		if e, ok := e.(*Elector); ok {
			e.listening = f
		}
	},
})

// Package inside hands to other packages of the library what a Quorum keeps from its
// users: the nodes themselves, and the subscriptions to them. Whoever has the nodes can
// write to a lock, so there is no method for it, and this package can be imported below
// elector/ only (of those, by elector, doctor and shard alone: .golangci.yml).
package inside

import (
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// elector imports this package, so *elector.Quorum can't be named here.
var parts func(q any) (*quorum.Nodes, *pubsub.Bus)

// Provide is for package elector, as it is initialized: of gives the nodes of an
// *elector.Quorum and their subscriptions. The result is for a package variable to hold.
func Provide(of func(q any) (*quorum.Nodes, *pubsub.Bus)) struct{} {
	parts = of
	return struct{}{}
}

// NodesOf is the nodes of an *elector.Quorum; nil when it has none, being nil or the zero
// value. They end with the Quorum.
func NodesOf(q any) *quorum.Nodes {
	nodes, _ := parts(q)
	return nodes
}

// BusOf is the subscriptions to those nodes, with the same end.
func BusOf(q any) *pubsub.Bus {
	_, bus := parts(q)
	return bus
}

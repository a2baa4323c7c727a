// Package inside hands to other packages of the library what a Quorum keeps from its
// users: the nodes themselves. Whoever has them can write to a lock, so there is no
// method for it, and this package can be imported below elector/ only (of those, by
// elector and doctor alone: .golangci.yml).
package inside

import "github.com/mandate-dev/mandate/elector/internal/quorum"

// elector imports this package, so *elector.Quorum can't be named here.
var nodes func(q any) *quorum.Nodes

// Provide is for package elector, as it is initialized: of gives the nodes of an
// *elector.Quorum. The result is for a package variable to hold.
func Provide(of func(q any) *quorum.Nodes) struct{} {
	nodes = of
	return struct{}{}
}

// NodesOf is the nodes of an *elector.Quorum; nil when it has none, being nil or the zero
// value. They end with the Quorum.
func NodesOf(q any) *quorum.Nodes { return nodes(q) }

// Package inside hands to other packages of the library what a Quorum and a Term keep from
// their users. Anyone who has the nodes can write to a lock, so there is no method for it, and
// this package can be imported below elector/ only (of those, by elector, doctor, shard and supervisor
// alone: .golangci.yml).
package inside

import (
	"context"

	"github.com/mandate-dev/mandate/elector/internal/cordon"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Face is what package elector shows. elector imports this package, so *elector.Quorum and
// *elector.Term can't be named here.
type Face struct {
	// Parts are the nodes of an *elector.Quorum, and the subscriptions to them; nil when it
	// has none, being nil or the zero value.
	Parts func(q any) (*quorum.Nodes, *pubsub.Bus)
	// Cordons is what an *elector.Quorum follows the cordoned candidates with.
	Cordons func(q any) *cordon.Watcher
	// HandOver requests the end of an *elector.Term in favour of the candidate with that
	// incarnation.
	HandOver func(term any, incarnation string, why error)
	// ConfigError makes an *elector.ConfigError of all these errors, which may be joined; nil
	// when there is none.
	ConfigError func(of string, errs ...error) error
	// Now reads the clocks that an Elector uses which runs under ctx.
	Now func(ctx context.Context) any
	// Began makes an *elector.Elector that has not run yet one that runs since a reading of Now.
	Began func(e, at any)
	// Assigns makes an *elector.Elector that has not run yet one of a group's assigner.
	Assigns func(e any)
	// Claim has an *elector.Elector that waits for the end of another's term claim at once.
	Claim func(e any)
	// Listening has a function called when an *elector.Elector that campaigns would receive a release at once.
	Listening func(e any, f func())
	// Above makes the tokens of an *elector.Elector that has not run yet greater than this one.
	Above func(e any, token uint64)
}

var face Face

// Provide is for package elector, as it is initialized. The result is for a package
// variable to hold.
func Provide(f Face) struct{} {
	face = f
	return struct{}{}
}

// NodesOf is the nodes of an *elector.Quorum; nil when it has none. They end with the Quorum.
func NodesOf(q any) *quorum.Nodes {
	nodes, _ := face.Parts(q)
	return nodes
}

// BusOf is the subscriptions to those nodes, with the same end.
func BusOf(q any) *pubsub.Bus {
	_, bus := face.Parts(q)
	return bus
}

// CordonsOf follows the cordoned candidates for an *elector.Quorum, which must not be nil.
func CordonsOf(q any) *cordon.Watcher { return face.Cordons(q) }

// HandOver requests the end of an *elector.Term in favour of the candidate with that
// incarnation: for a quarter of a lease no other one is elected. It returns at once.
func HandOver(term any, incarnation string, why error) { face.HandOver(term, incarnation, why) }

// ConfigError makes an *elector.ConfigError of what is wrong with a configuration, from the
// errors of package setting, so that a program finds the settings by their names; nil when
// nothing is.
func ConfigError(of string, errs ...error) error { return face.ConfigError(of, errs...) }

// Now reads the clocks that an Elector uses which runs under ctx: for Began.
func Now(ctx context.Context) any { return face.Now(ctx) }

// Began makes an *elector.Elector that has not run yet count as one that runs since then. What
// has run for a lease never takes nodes that know nothing for those of a first start: an
// Elector that is made for a moment would do so whenever they have lost their data.
func Began(e, at any) { face.Began(e, at) }

// Assigns makes an *elector.Elector that has not run yet one of a group's assigner: any other one with
// that name is refused while the group exists.
func Assigns(e any) { face.Assigns(e) }

// Claim has an *elector.Elector that waits for the end of another's term claim at once: that one
// may have ended, and the messages that report it may be lost.
func Claim(e any) { face.Claim(e) }

// Listening has f called each time that an *elector.Elector, which has not run yet, has begun to
// campaign and a majority of the nodes sends it what a release publishes first. A release before
// that it would learn of later, or not at all. f must not block.
func Listening(e any, f func()) { face.Listening(e, f) }

// Above makes the tokens of an *elector.Elector that has not run yet greater than this one: of
// another election, whose work it continues.
func Above(e any, token uint64) { face.Above(e, token) }

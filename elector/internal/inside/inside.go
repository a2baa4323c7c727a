// Package inside gives other packages of the library access to parts of package elector that have
// no exported method. Code that has the nodes of a Quorum can write to a lock, so users must not get
// them: this package can be imported below elector/ only, and .golangci.yml restricts that to
// elector, doctor, shard and supervisor.
package inside

import (
	"context"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Face has the functions that package elector provides. elector imports this package, so their
// types can't name *elector.Quorum and the like: these arguments are of type any.
type Face struct {
	// Parts returns the nodes of an *elector.Quorum, and the subscriptions to them; nil if it has
	// none, because it is nil or the zero value.
	Parts func(q any) (*quorum.Nodes, *pubsub.Bus)
	// HandOver requests the end of an *elector.Term in favour of the candidate with that
	// incarnation.
	HandOver func(term any, incarnation string, why error)
	// ConfigError returns an *elector.ConfigError with all these errors, which may be joined; nil
	// if there is none.
	ConfigError func(of string, errs ...error) error
	// Now reads the clocks of an Elector that runs under ctx.
	Now func(ctx context.Context) any
	// Began sets, with a reading of Now, since when an *elector.Elector that has not run yet counts
	// as running.
	Began func(e, at any)
	// Assigns marks an *elector.Elector that has not run yet as that of a group's assigner.
	Assigns func(e any)
	// Claim makes an *elector.Elector that waits for the end of another candidate's term claim at once.
	Claim func(e any)
	// Listening sets a function to call when an *elector.Elector that campaigns has subscribed to releases.
	Listening func(e any, f func())
}

var face Face

// Provide sets the functions. Package elector calls it when it is initialized; the result only
// lets it do so in the declaration of a package variable.
func Provide(f Face) struct{} {
	face = f
	return struct{}{}
}

// NodesOf returns the nodes of an *elector.Quorum; nil if it has none. They are closed with the Quorum.
func NodesOf(q any) *quorum.Nodes {
	nodes, _ := face.Parts(q)
	return nodes
}

// BusOf returns the subscriptions to those nodes, which are closed with the Quorum, too.
func BusOf(q any) *pubsub.Bus {
	_, bus := face.Parts(q)
	return bus
}

// HandOver requests the end of an *elector.Term in favour of the candidate with that
// incarnation: for a quarter of a lease no other candidate is elected. It returns at once.
func HandOver(term any, incarnation string, why error) { face.HandOver(term, incarnation, why) }

// ConfigError returns an *elector.ConfigError with everything that is wrong with a configuration,
// given as errors of package setting, so that a program can find the settings by their names; nil
// if nothing is wrong.
func ConfigError(of string, errs ...error) error { return face.ConfigError(of, errs...) }

// Now reads the clocks of an Elector that runs under ctx, for Began.
func Now(ctx context.Context) any { return face.Now(ctx) }

// Began makes an *elector.Elector that has not run yet count as running since at. An Elector that
// has run for a lease never takes empty nodes for the very first start of an election. A short-lived
// Elector would do so each time that the nodes have lost their data.
func Began(e, at any) { face.Began(e, at) }

// Assigns marks an *elector.Elector that has not run yet as that of a group's assigner: while the
// group exists, any other Elector of that name is refused.
func Assigns(e any) { face.Assigns(e) }

// Claim makes an *elector.Elector that waits for the end of another candidate's term claim at once:
// that term may have ended, and the messages that report it may be lost.
func Claim(e any) { face.Claim(e) }

// Listening makes an *elector.Elector that has not run yet call f each time that it has begun to
// campaign and a majority of the nodes has confirmed its subscription to the wake channel, on which
// a release is published first, or so many refuse it that no majority can. The Elector may notice an
// earlier release late or not at all. f must not block.
func Listening(e any, f func()) { face.Listening(e, f) }

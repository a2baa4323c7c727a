package main

import (
	"fmt"

	"github.com/mandate-dev/mandate/elector/shard"
)

// groupReport is a group of shards as one row of a list. A thousand rows of healthy shards would
// hide the one that is not.
type groupReport struct {
	shard.Status

	listed int // shards that have an election
	gone   bool
}

// state returns the state of all shards together.
func (g *groupReport) state() string {
	switch {
	case g.gone:
		return stateAbandoned
	case len(g.Unowned) == g.Shards:
		return stateVacant
	default:
		return stateLed
	}
}

// owned returns how many of the shards have an owner.
func (g *groupReport) owned() string {
	if g.gone {
		return fmt.Sprintf("%s (%d shards)", stateAbandoned, g.listed)
	}
	return fmt.Sprintf("%d/%d owned", g.Shards-len(g.Unowned), g.Shards)
}

// able returns how many of the members want shards.
func (g *groupReport) able() string {
	able := 0
	for _, m := range g.Members {
		if m.Closed == "" {
			able++
		}
	}
	return fmt.Sprintf("%d/%d", able, len(g.Members))
}

// problem returns what is wrong with a group, and the command to type next.
func (g *groupReport) problem(flags nextFlags) (why, next string) {
	next = flags.command("shards", g.Group)
	switch {
	case g.gone:
		return "", ""
	case len(g.Unowned) > 0:
		return fmt.Sprintf("%d of %d shards have no owner: %s (%s)", len(g.Unowned), g.Shards, unowned(g.Status), g.Unowned[0].Why), next
	case g.Assigner == "":
		return "no assigner: shards stay where they are", next
	default:
		return "", ""
	}
}

package elector

import (
	"slices"

	"github.com/mandate-dev/mandate/elector/internal/peers"
)

// Succession says who leads after whom. The lock alone decides who leads; a
// Succession only decides for whom the others wait, and who yields. All
// candidates of an election should use the same. A favourite that is dead or
// cut off delays an election by a quarter of a lease at most. Except for Race it is
// meant for some dozens of candidates: each hears of each.
type Succession string

// The successions.
const (
	// SuccessionRace: who comes first leads.
	SuccessionRace Succession = ""
	// SuccessionPriority: the healthy candidate with the highest Config.Priority leads; of
	// equals the one that has run longest (the bully algorithm's outcome). A
	// leader hands over to a higher one that has been healthy for a lease.
	SuccessionPriority Succession = "priority"
	// SuccessionSeniority: the healthy candidate that has run longest leads next.
	SuccessionSeniority Succession = "seniority"
	// SuccessionRotation: the healthy candidate with the next id in alphabetical order leads
	// next, after the last one the first (a ring). With Config.MaxTerm
	// the leadership walks round.
	SuccessionRotation Succession = "rotation"
)

func (s Succession) known() bool {
	return slices.Contains([]Succession{SuccessionRace, SuccessionPriority, SuccessionSeniority, SuccessionRotation}, s)
}

// order is the Succession as the candidates apply it to each other.
func (s Succession) order() peers.Order {
	switch s {
	case SuccessionPriority:
		return peers.ByPriority
	case SuccessionSeniority:
		return peers.BySeniority
	case SuccessionRotation:
		return peers.ByRotation
	default:
		return peers.Race
	}
}

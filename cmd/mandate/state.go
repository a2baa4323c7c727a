package main

// The states of an election, as ls and status name them.
const (
	stateLed       = "led"
	statePaused    = "paused"    // no leader, and none will be elected
	stateVacant    = "vacant"    // no leader, and it is missed
	stateAbandoned = "abandoned" // no candidate, and no leader for a day, or never
	stateNone      = "none"      // no leader; whether there are candidates is not known
	stateUnknown   = "unknown"   // no majority of the nodes answered
)

package main

// These are the states of an election in ls and status.
const (
	stateLed       = "led"
	statePaused    = "paused"    // no leader, and none will be elected
	stateVacant    = "vacant"    // no leader, although one is expected
	stateAbandoned = "abandoned" // no candidate, and no leader for a day, or never
	stateNone      = "none"      // no leader; whether there are candidates is not known
	stateUnknown   = "unknown"   // no majority of the nodes answered
)

package main

// The states of an election, as ls and status name them.
const (
	stateLed       = "led"
	statePaused    = "paused"    // no leader, and none will be elected
	stateVacant    = "vacant"    // candidates are there, and none leads
	stateAbandoned = "abandoned" // there is neither a leader nor a candidate
	stateNone      = "none"      // no leader; whether there are candidates is not known
	stateUnknown   = "unknown"   // no majority of the nodes answered
)

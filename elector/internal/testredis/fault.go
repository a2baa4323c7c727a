package testredis

import "time"

// Mode is what happens to data on a line.
type Mode int

// The modes.
const (
	Pass Mode = iota
	Hold      // the data is held back until the fault ends
	Drop
)

// Fault is a fault of a line. The zero value is no fault.
type Fault struct {
	Up, Down     Mode          // of requests, of answers
	Refuse       bool          // new connections are refused
	LoseMessages bool          // published messages are dropped
	Unreachable  bool          // new connections fail because the host is unreachable
	Delay        time.Duration // in each direction
	Far          bool          // dialling and greeting are delayed, too, except for subscriptions
}

// The faults of most tests.
var (
	Frozen = Fault{Up: Hold, Down: Hold} // a server that accepts and never answers
	Cut    = Fault{Up: Drop, Down: Drop, Unreachable: true}
	Down   = Fault{Refuse: true}
)

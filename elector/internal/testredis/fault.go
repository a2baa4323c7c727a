package testredis

import "time"

// Mode is what becomes of what is on its way.
type Mode int

// The modes.
const (
	Pass Mode = iota
	Hold      // it is kept on the way until the fault is over
	Drop
)

// Fault is what is wrong with a line. The zero value is none.
type Fault struct {
	Up, Down     Mode          // requests, answers
	Refuse       bool          // new connections
	LoseMessages bool          // nothing published arrives
	Unreachable  bool          // new connections, by a router's word
	Delay        time.Duration // of each way
	Far          bool          // the delay is also that of dialling and greeting, but for subscriptions
}

// The faults of most tests.
var (
	Frozen = Fault{Up: Hold, Down: Hold} // a server that accepts and never answers
	Cut    = Fault{Up: Drop, Down: Drop, Unreachable: true}
	Down   = Fault{Refuse: true}
)

package elector

import (
	"github.com/mandate-dev/mandate/elector/internal/millis"
)

// The types without their methods, which would call themselves.
type (
	plainStatus     Status
	plainLeader     Leader
	plainNodeStatus NodeStatus
	plainTermRecord TermRecord
	plainPause      PauseRecord
)

// MarshalJSON writes durations in milliseconds.
func (st Status) MarshalJSON() ([]byte, error) { return millis.Marshal(plainStatus(st)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (st *Status) UnmarshalJSON(b []byte) error { return millis.Unmarshal(b, (*plainStatus)(st)) }

// MarshalJSON writes durations in milliseconds.
func (l Leader) MarshalJSON() ([]byte, error) { return millis.Marshal(plainLeader(l)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Leader) UnmarshalJSON(b []byte) error { return millis.Unmarshal(b, (*plainLeader)(l)) }

// MarshalJSON writes durations in milliseconds.
func (n NodeStatus) MarshalJSON() ([]byte, error) { return millis.Marshal(plainNodeStatus(n)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (n *NodeStatus) UnmarshalJSON(b []byte) error { return millis.Unmarshal(b, (*plainNodeStatus)(n)) }

// MarshalJSON writes durations in milliseconds.
func (r TermRecord) MarshalJSON() ([]byte, error) { return millis.Marshal(plainTermRecord(r)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (r *TermRecord) UnmarshalJSON(b []byte) error { return millis.Unmarshal(b, (*plainTermRecord)(r)) }

// MarshalJSON writes durations in milliseconds.
func (p PauseRecord) MarshalJSON() ([]byte, error) { return millis.Marshal(plainPause(p)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (p *PauseRecord) UnmarshalJSON(b []byte) error { return millis.Unmarshal(b, (*plainPause)(p)) }

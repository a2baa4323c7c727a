package elector

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// Durations are milliseconds in JSON, under keys that end in _ms: no reader knows the unit of bare
// nanoseconds, and measured times, such as a round trip, need the fraction. The types below
// are those of this package with the durations beside their other fields.

type millis time.Duration

func (m millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(time.Duration(m).Microseconds())/1000, 'f', -1, 64), nil
}

func (m *millis) UnmarshalJSON(b []byte) error {
	var ms float64
	if err := json.Unmarshal(b, &ms); err != nil {
		return err
	}
	const longest = float64(math.MaxInt64 / time.Millisecond) // a foreign event may hold any number
	*m = millis(math.Round(max(-longest, min(longest, ms)) * float64(time.Millisecond)))
	return nil
}

type (
	plainStatus Status
	statusJSON  struct {
		plainStatus

		PauseLeft millis `json:"pause_left_ms,omitempty"`
	}

	plainLeader Leader
	leaderJSON  struct {
		plainLeader

		LeaseLeft millis `json:"lease_left_ms"`
	}

	plainNode NodeStatus
	nodeJSON  struct {
		plainNode

		LeaseLeft millis `json:"lease_left_ms,omitempty"`
		Abstains  millis `json:"abstains_ms,omitempty"`
		RTT       millis `json:"rtt_ms"`
	}

	plainCandidate CandidateStatus
	candidateJSON  struct {
		plainCandidate

		RunningFor millis `json:"running_ms"`
		HealthyFor millis `json:"healthy_for_ms,omitempty"`
		RestFor    millis `json:"rest_for_ms,omitempty"`
		Lease      millis `json:"lease_ms,omitempty"`
	}

	plainEvent Event
	eventJSON  struct {
		plainEvent

		Held   millis `json:"held_ms,omitempty"`
		Vacant millis `json:"vacant_ms,omitempty"`
		For    millis `json:"for_ms,omitempty"`
	}

	plainRecord TermRecord
	recordJSON  struct {
		plainRecord

		Lasted millis `json:"lasted_ms,omitempty"`
		Gap    millis `json:"gap_ms,omitempty"`

		MaxLasted millis `json:"max_lasted_ms,omitempty"`
		MaxGap    millis `json:"max_gap_ms,omitempty"`
	}

	plainPause PauseRecord
	pauseJSON  struct {
		plainPause

		For millis `json:"for_ms,omitempty"`
	}
)

// MarshalJSON writes durations in milliseconds.
func (st Status) MarshalJSON() ([]byte, error) {
	return json.Marshal(statusJSON{plainStatus(st), millis(st.PauseLeft)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (st *Status) UnmarshalJSON(b []byte) error {
	var j statusJSON
	err := json.Unmarshal(b, &j)
	*st = Status(j.plainStatus)
	st.PauseLeft = time.Duration(j.PauseLeft)
	return err
}

// MarshalJSON writes durations in milliseconds.
func (l Leader) MarshalJSON() ([]byte, error) {
	return json.Marshal(leaderJSON{plainLeader(l), millis(l.LeaseLeft)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Leader) UnmarshalJSON(b []byte) error {
	var j leaderJSON
	err := json.Unmarshal(b, &j)
	*l = Leader(j.plainLeader)
	l.LeaseLeft = time.Duration(j.LeaseLeft)
	return err
}

// MarshalJSON writes durations in milliseconds.
func (n NodeStatus) MarshalJSON() ([]byte, error) {
	return json.Marshal(nodeJSON{plainNode(n), millis(n.LeaseLeft), millis(n.Abstains), millis(n.RTT)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *NodeStatus) UnmarshalJSON(b []byte) error {
	var j nodeJSON
	err := json.Unmarshal(b, &j)
	*n = NodeStatus(j.plainNode)
	n.LeaseLeft, n.Abstains, n.RTT = time.Duration(j.LeaseLeft), time.Duration(j.Abstains), time.Duration(j.RTT)
	return err
}

// MarshalJSON writes durations in milliseconds.
func (c CandidateStatus) MarshalJSON() ([]byte, error) {
	return json.Marshal(candidateJSON{plainCandidate(c), millis(c.RunningFor), millis(c.HealthyFor), millis(c.RestFor), millis(c.Lease)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *CandidateStatus) UnmarshalJSON(b []byte) error {
	var j candidateJSON
	err := json.Unmarshal(b, &j)
	*c = CandidateStatus(j.plainCandidate)
	c.RunningFor, c.HealthyFor = time.Duration(j.RunningFor), time.Duration(j.HealthyFor)
	c.RestFor, c.Lease = time.Duration(j.RestFor), time.Duration(j.Lease)
	return err
}

// MarshalJSON writes durations in milliseconds.
func (ev Event) MarshalJSON() ([]byte, error) {
	return json.Marshal(eventJSON{plainEvent(ev), millis(ev.Held), millis(ev.Vacant), millis(ev.For)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (ev *Event) UnmarshalJSON(b []byte) error {
	var j eventJSON
	err := json.Unmarshal(b, &j)
	*ev = Event(j.plainEvent)
	ev.Held, ev.Vacant, ev.For = time.Duration(j.Held), time.Duration(j.Vacant), time.Duration(j.For)
	return err
}

// MarshalJSON writes durations in milliseconds.
func (r TermRecord) MarshalJSON() ([]byte, error) {
	return json.Marshal(recordJSON{plainRecord(r), millis(r.Lasted), millis(r.Gap), millis(r.MaxLasted), millis(r.MaxGap)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *TermRecord) UnmarshalJSON(b []byte) error {
	var j recordJSON
	err := json.Unmarshal(b, &j)
	*r = TermRecord(j.plainRecord)
	r.Lasted, r.Gap = time.Duration(j.Lasted), time.Duration(j.Gap)
	r.MaxLasted, r.MaxGap = time.Duration(j.MaxLasted), time.Duration(j.MaxGap)
	return err
}

// MarshalJSON writes durations in milliseconds.
func (p PauseRecord) MarshalJSON() ([]byte, error) {
	return json.Marshal(pauseJSON{plainPause(p), millis(p.For)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *PauseRecord) UnmarshalJSON(b []byte) error {
	var j pauseJSON
	err := json.Unmarshal(b, &j)
	*p = PauseRecord(j.plainPause)
	p.For = time.Duration(j.For)
	return err
}

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

func (m millis) MarshalJSON() ([]byte, error) { return m.append(nil), nil }

func (m millis) append(b []byte) []byte {
	return strconv.AppendFloat(b, float64(time.Duration(m).Microseconds())/1000, 'f', -1, 64)
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

		Held millis `json:"held_ms,omitempty"`
		Late millis `json:"late_ms,omitempty"`

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

	plainVacancy Vacancy
	vacancyJSON  struct {
		plainVacancy

		For    millis `json:"for_ms,omitempty"`
		MaxFor millis `json:"max_for_ms,omitempty"`
	}

	plainAvailability Availability
	availabilityJSON  struct {
		plainAvailability

		Leaderless    millis  `json:"leaderless_ms"`
		MaxLeaderless millis  `json:"max_leaderless_ms"`
		Paused        millis  `json:"paused_ms"`
		MaxPaused     millis  `json:"max_paused_ms"`
		MinLed        float64 `json:"min_led"`
		MaxLed        float64 `json:"max_led"`
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
	return json.Marshal(eventJSON{plainEvent(ev), millis(ev.Held), millis(ev.Late), millis(ev.Vacant), millis(ev.For)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (ev *Event) UnmarshalJSON(b []byte) error {
	var j eventJSON
	err := json.Unmarshal(b, &j)
	*ev = Event(j.plainEvent)
	ev.Held, ev.Late, ev.Vacant = time.Duration(j.Held), time.Duration(j.Late), time.Duration(j.Vacant)
	ev.For = time.Duration(j.For)
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

// MarshalJSON writes durations in milliseconds.
func (v Vacancy) MarshalJSON() ([]byte, error) {
	return json.Marshal(vacancyJSON{plainVacancy(v), millis(v.For), millis(v.MaxFor)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Vacancy) UnmarshalJSON(b []byte) error {
	var j vacancyJSON
	err := json.Unmarshal(b, &j)
	*v = Vacancy(j.plainVacancy)
	v.For, v.MaxFor = time.Duration(j.For), time.Duration(j.MaxFor)
	return err
}

// MarshalJSON writes durations in milliseconds, and what Led returns.
func (a Availability) MarshalJSON() ([]byte, error) {
	least, most := a.Led()
	return json.Marshal(availabilityJSON{
		plainAvailability(a), millis(a.Leaderless), millis(a.MaxLeaderless), millis(a.Paused), millis(a.MaxPaused), least, most,
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Availability) UnmarshalJSON(b []byte) error {
	var j availabilityJSON
	err := json.Unmarshal(b, &j)
	*a = Availability(j.plainAvailability)
	a.Leaderless, a.MaxLeaderless = time.Duration(j.Leaderless), time.Duration(j.MaxLeaderless)
	a.Paused, a.MaxPaused = time.Duration(j.Paused), time.Duration(j.MaxPaused)
	return err
}

package elector

import (
	"encoding/json"
	"iter"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Durations are milliseconds in JSON, under keys that end in _ms: no reader knows the unit of bare
// nanoseconds, and measured times, such as a round trip, need the fraction. The tag "ms" of a field
// has its key.

// marshalMillis returns v, a struct, as JSON with its durations.
func marshalMillis(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-1]
	for key, d := range durations(reflect.ValueOf(v)) {
		key, omit := strings.CutSuffix(key, ",omitempty")
		if omit && d.Int() == 0 {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, key), ':')
		b = strconv.AppendFloat(b, float64(time.Duration(d.Int()).Microseconds())/1000, 'f', -1, 64)
	}
	return append(b, '}'), nil
}

// unmarshalMillis reads what marshalMillis writes into v, a pointer to a struct.
func unmarshalMillis(b []byte, v any) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	for key, d := range durations(reflect.ValueOf(v).Elem()) {
		raw, ok := fields[strings.TrimSuffix(key, ",omitempty")]
		if !ok {
			continue
		}
		var ms float64
		if err := json.Unmarshal(raw, &ms); err != nil {
			return err
		}
		const longest = float64(math.MaxInt64 / time.Millisecond) // a foreign event may hold any number
		d.SetInt(int64(math.Round(max(-longest, min(longest, ms)) * float64(time.Millisecond))))
	}
	return json.Unmarshal(b, v)
}

// durations goes through the fields of a struct that have a tag "ms".
func durations(s reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for i := range s.NumField() {
			if key := s.Type().Field(i).Tag.Get("ms"); key != "" && !yield(key, s.Field(i)) {
				return
			}
		}
	}
}

// The types of this package without their methods, which would call themselves.
type (
	plainStatus          Status
	plainLeader          Leader
	plainNodeStatus      NodeStatus
	plainCandidateStatus CandidateStatus
	plainVotingNode      VotingNode
	plainEvent           Event
	plainTermRecord      TermRecord
	plainPauseRecord     PauseRecord
)

// MarshalJSON writes durations in milliseconds.
func (st Status) MarshalJSON() ([]byte, error) { return marshalMillis(plainStatus(st)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (st *Status) UnmarshalJSON(b []byte) error { return unmarshalMillis(b, (*plainStatus)(st)) }

// MarshalJSON writes durations in milliseconds.
func (l Leader) MarshalJSON() ([]byte, error) { return marshalMillis(plainLeader(l)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Leader) UnmarshalJSON(b []byte) error { return unmarshalMillis(b, (*plainLeader)(l)) }

// MarshalJSON writes durations in milliseconds.
func (n NodeStatus) MarshalJSON() ([]byte, error) { return marshalMillis(plainNodeStatus(n)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (n *NodeStatus) UnmarshalJSON(b []byte) error { return unmarshalMillis(b, (*plainNodeStatus)(n)) }

// MarshalJSON writes durations in milliseconds.
func (c CandidateStatus) MarshalJSON() ([]byte, error) { return marshalMillis(plainCandidateStatus(c)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *CandidateStatus) UnmarshalJSON(b []byte) error {
	return unmarshalMillis(b, (*plainCandidateStatus)(c))
}

// MarshalJSON writes durations in milliseconds.
func (n VotingNode) MarshalJSON() ([]byte, error) { return marshalMillis(plainVotingNode(n)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (n *VotingNode) UnmarshalJSON(b []byte) error { return unmarshalMillis(b, (*plainVotingNode)(n)) }

// MarshalJSON writes durations in milliseconds.
func (ev Event) MarshalJSON() ([]byte, error) { return marshalMillis(plainEvent(ev)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (ev *Event) UnmarshalJSON(b []byte) error { return unmarshalMillis(b, (*plainEvent)(ev)) }

// MarshalJSON writes durations in milliseconds.
func (r TermRecord) MarshalJSON() ([]byte, error) { return marshalMillis(plainTermRecord(r)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (r *TermRecord) UnmarshalJSON(b []byte) error { return unmarshalMillis(b, (*plainTermRecord)(r)) }

// MarshalJSON writes durations in milliseconds.
func (p PauseRecord) MarshalJSON() ([]byte, error) { return marshalMillis(plainPauseRecord(p)) }

// UnmarshalJSON reads what MarshalJSON writes.
func (p *PauseRecord) UnmarshalJSON(b []byte) error {
	return unmarshalMillis(b, (*plainPauseRecord)(p))
}

package elector_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Durations are in milliseconds, and nothing is lost on the way back.
func TestJSONDurationsAreMilliseconds(t *testing.T) {
	took := 1234567 * time.Microsecond
	nanoseconds := regexp.MustCompile(`_ns"`)
	for _, v := range []any{
		&elector.Status{Paused: true, PauseLeft: took, Leader: &elector.Leader{Candidate: "a", LeaseLeft: took}, Nodes: []elector.NodeStatus{{LeaseLeft: took, Abstains: took, RTT: took}}},
		&elector.CandidateStatus{ID: "a", RunningFor: took, HealthyFor: took, RestFor: took, Lease: took},
		&elector.Event{Kind: elector.EventReleased, Held: took},
		&elector.TermRecord{Token: 7, Lasted: took, Gap: -took},
		&elector.Event{Kind: elector.EventOverrun, For: took},
		&elector.PauseRecord{By: "ann", For: took},
	} {
		b, err := json.Marshal(v)
		if err != nil || nanoseconds.Match(b) || !regexp.MustCompile(`_ms":-?1234\.567[,}]`).Match(b) {
			t.Errorf("%s, %v", b, err)
		}
		back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := json.Unmarshal(b, back); err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("%s became %+v, %v", b, back, err)
		}
	}
}

// Every duration that the package puts into JSON is one of the above.
func TestJSONKeysOfDurationsEndInMS(t *testing.T) {
	duration := reflect.TypeFor[time.Duration]()
	for _, v := range []any{elector.Status{}, elector.Leader{}, elector.NodeStatus{}, elector.CandidateStatus{}, elector.TermRecord{}, elector.Event{}, elector.PauseRecord{}} {
		for i := range reflect.TypeOf(v).NumField() {
			f := reflect.TypeOf(v).Field(i)
			if tag := f.Tag.Get("json"); f.Type == duration && f.IsExported() && tag != "-" {
				t.Errorf("%T.%s has the key %q: a number of nanoseconds (json.go)", v, f.Name, tag)
			}
		}
	}
}

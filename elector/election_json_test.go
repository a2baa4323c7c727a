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

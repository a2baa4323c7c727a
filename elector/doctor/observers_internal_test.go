package doctor

import (
	"testing"

	"github.com/mandate-dev/mandate/elector"
)

// Replicas that never campaign must not pass for candidates: without another one nothing is elected.
func TestOnlyObserversAreLeft(t *testing.T) {
	replica := func(id string, role string) elector.CandidateStatus {
		return elector.CandidateStatus{ID: id, Role: role, Healthy: true}
	}
	a, b, o := replica("a", "leading"), replica("b", "following"), replica("o", "observing")
	for name, c := range map[string]struct {
		roll  []elector.CandidateStatus
		level Level // empty: nothing is found
	}{
		"no observer":             {[]elector.CandidateStatus{a}, ""},
		"a leader and a follower": {[]elector.CandidateStatus{a, b, o}, ""},
		"nothing but a leader":    {[]elector.CandidateStatus{a, o, o}, LevelWarn},
		"nothing but observers":   {[]elector.CandidateStatus{o}, LevelFail},
	} {
		e := &examination{command: func(verb string, _ ...string) string { return verb }}
		e.ready("e", c.roll)
		if f := find(e.findings, "able"); f.Level != c.level {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

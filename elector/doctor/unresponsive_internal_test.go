package doctor

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Only a leader that is missing, and neither renews nor is replaced, is accused.
func TestUnresponsiveLeader(t *testing.T) {
	was := elector.Leader{Candidate: "a", Incarnation: "1", Token: 7, LeaseLeft: 8 * time.Second}
	later := func(change func(*elector.Leader)) *elector.Leader {
		l := was
		l.LeaseLeft -= time.Millisecond
		change(&l)
		return &l
	}
	for name, c := range map[string]struct {
		now     *elector.Leader
		elapsed time.Duration
		want    bool
	}{
		"as it was":         {later(func(*elector.Leader) {}), time.Millisecond, true},
		"renewed":           {later(func(l *elector.Leader) { l.LeaseLeft = 9 * time.Second }), time.Millisecond, false},
		"next term":         {later(func(l *elector.Leader) { l.Token++ }), time.Millisecond, false},
		"replaced":          {later(func(l *elector.Leader) { l.Incarnation = "2" }), time.Millisecond, false},
		"released":          {nil, 7 * time.Second, false},
		"its lease expired": {nil, 8 * time.Second, true},
	} {
		if got := stuck(was, c.now, c.elapsed); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if answers(was, []elector.CandidateStatus{{ID: "a", Incarnation: "2"}}) || !answers(was, []elector.CandidateStatus{{ID: "a", Incarnation: "1"}}) {
		t.Error("two lives of one id were taken for one")
	}
	if !answers(elector.Leader{Candidate: "a"}, nil) || !answers(was, []elector.CandidateStatus{{ID: "a"}}) {
		t.Error("a version without incarnations was accused")
	}
}

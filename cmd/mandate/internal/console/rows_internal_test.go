package console

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/vacancy"
	"github.com/mandate-dev/mandate/elector"
)

// Regression: the begin of a term whose end nobody reported was taken for its end, and an
// election whose leader was killed after two days stood among the abandoned ones, folded.
func TestAbandonedIsVacantForADay(t *testing.T) {
	now := time.Now()
	ago := func(hours int) time.Time { return now.Add(time.Duration(-hours) * time.Hour) }
	vanished := []elector.TermRecord{{Token: 1, Candidate: "a", From: ago(48), Reason: elector.ReasonVanished, MaxLasted: 48 * time.Hour}}
	released := []elector.TermRecord{{Token: 1, Candidate: "a", From: ago(48), Until: ago(47), Reason: elector.ReasonShutdown}}
	recent := []elector.TermRecord{{Token: 1, Candidate: "a", From: ago(1), Reason: elector.ReasonVanished}}
	lasting := []elector.TermRecord{{Token: 1, Candidate: "a", From: ago(48), Current: true}}
	for name, test := range map[string]struct {
		records     []elector.TermRecord
		led, missed time.Time
		want        string
	}{
		"vanished, and just opened":              {vanished, time.Time{}, now, stateVacant},
		"vanished, missed for an hour":           {vanished, ago(2), ago(1), stateVacant},
		"vanished, missed for 25 h":              {vanished, time.Time{}, ago(25), stateAbandoned},
		"released long ago":                      {released, time.Time{}, now, stateAbandoned},
		"a later term is not in the history yet": {released, ago(1), now, stateVacant},
		"the history is older than the vacancy":  {lasting, ago(0), now, stateVacant},
		"no history":                             {nil, time.Time{}, now, stateAbandoned},
		"no history, and a candidate led":        {nil, ago(1), now, stateVacant},
		"a candidate led between two looks":      {recent, time.Time{}, ago(49), stateVacant},
	} {
		var sight vacancy.Sight
		if !test.led.IsZero() {
			sight.Look(true, test.led)
		}
		sight.Look(false, test.missed)
		began, ended := lastTerm(test.records)
		sight.Recorded(began, ended, now)
		if r := rowOf("e", elector.Status{Election: "e"}, 0, count{read: true}, briefOf(test.records, now), sight, now); r.State != test.want {
			t.Errorf("%s: %s, want %s", name, r.State, test.want)
		}
	}
	if p := pastOf("e", vanished); p.Until != 0 {
		t.Errorf("it ended at %v, and nobody knows", time.UnixMilli(p.Until))
	}
	if p := pastOf("e", append([]elector.TermRecord{{Token: 2, Candidate: "b", From: ago(3), Current: true}}, vanished...)); p.Until != ago(3).UnixMilli() {
		t.Errorf("it ended at %v, not when the next term began", time.UnixMilli(p.Until))
	}
}

// An election is degraded when a candidate could not take over, but not after
// every step-down.
func TestRowsThatAreDegraded(t *testing.T) {
	leads := elector.CandidateStatus{ID: "a", Incarnation: "1", Healthy: true, Role: elector.RoleLeading}
	well := elector.CandidateStatus{ID: "b", Incarnation: "2", Healthy: true, Role: elector.RoleFollowing}
	ill, rests := well, well
	ill.Healthy, rests.RestFor = false, time.Second
	for name, test := range map[string]struct {
		roll []elector.CandidateStatus
		want bool
	}{
		"well": {[]elector.CandidateStatus{leads, well}, false}, "alone": {[]elector.CandidateStatus{leads}, false},
		"ill": {[]elector.CandidateStatus{leads, well, ill}, true}, "rests": {[]elector.CandidateStatus{leads, rests}, false},
	} {
		if got := countOf(test.roll, "1").degraded; got != test.want {
			t.Errorf("%s: degraded is %v", name, got)
		}
	}
}

// An observer is no candidate that could lead, and an election with one is not abandoned.
func TestRowsCountObserversApart(t *testing.T) {
	n := countOf([]elector.CandidateStatus{
		{ID: "a", Incarnation: "1", Healthy: true, Role: elector.RoleLeading},
		{ID: "watcher", Incarnation: "2", Healthy: true, Role: elector.RoleObserving},
	}, "1")
	if n.able != 1 || n.of != 1 || n.answered != 2 {
		t.Errorf("%d/%d of %d that answered", n.able, n.of, n.answered)
	}
}

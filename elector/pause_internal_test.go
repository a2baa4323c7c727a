package elector

import (
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// What a claim or a renewal tells about a pause. A leader that takes an election for
// paused makes room for nobody; one that misses the pause leaves a paused election
// without a leader. So a majority decides, and a few that differ change nothing.
func TestPauseAsReportedByTheNodes(t *testing.T) {
	answer := func(s quorum.Status, note string) quorum.Answer { return quorum.Answer{Status: s, Note: note} }
	paused, mine, noted := answer(quorum.Paused, "drill"), answer(quorum.Renewed, ""), answer(quorum.Renewed, "drill")
	won, held, unknown := answer(quorum.Won, ""), answer(quorum.Held, ""), answer(quorum.Unknown, "")
	planted := answer(quorum.Planted, quorum.Forgot)
	for name, c := range map[string]struct {
		renewal bool
		was     string
		answers []quorum.Answer
		want    string
	}{
		"a claim: a majority is paused":         {answers: []quorum.Answer{paused, won, paused}, want: "drill"},
		"a claim: one node is":                  {was: "old", answers: []quorum.Answer{paused, won, won}},
		"a claim: one node is, and one is held": {was: "old", answers: []quorum.Answer{paused, won, held}, want: "old"},
		"a claim: held, which hides a pause":    {was: "old", answers: []quorum.Answer{held, held, held}, want: "old"},
		"a claim: not paused any more":          {was: "old", answers: []quorum.Answer{won, won, unknown}},

		"a renewal: a majority is paused":   {renewal: true, answers: []quorum.Answer{noted, mine, noted}, want: "drill"},
		"a renewal: one node is":            {renewal: true, was: "old", answers: []quorum.Answer{noted, mine, mine}},
		"a renewal: nodes that can't tell":  {renewal: true, was: "old", answers: []quorum.Answer{noted, mine, unknown}, want: "old"},
		"a renewal: and none that can":      {renewal: true, answers: []quorum.Answer{noted, unknown, unknown}},
		"a renewal: other notes are others": {renewal: true, answers: []quorum.Answer{planted, planted, mine}},
		"a renewal: not paused any more":    {renewal: true, was: "old", answers: []quorum.Answer{mine, unknown, mine}},
	} {
		t.Run(name, func(t *testing.T) {
			e := offline(t, 3)
			e.paused = c.was
			tally := e.nodes.Tally(c.answers, 0)
			if c.renewal {
				e.notePauseOfRenewal(tally)
			} else {
				e.notePause(tally)
			}
			if e.paused != c.want || e.isPaused() != (c.want != "") {
				t.Errorf("paused %q, want %q", e.paused, c.want)
			}
		})
	}
}

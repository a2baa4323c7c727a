package elector

import (
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// What a claim or a renewal tells about a pause. A leader that takes an election for
// paused makes room for nobody; one that misses the pause leaves a paused election
// without a leader. So a majority decides, and a few that differ change nothing.
func TestPauseAsReportedByTheNodes(t *testing.T) {
	answer := func(s protocol.Status, note string) protocol.Answer { return protocol.Answer{Status: s, Note: note} }
	paused, mine, noted := answer(protocol.Paused, "drill"), answer(protocol.Renewed, ""), answer(protocol.Renewed, "drill")
	won, held, unknown := answer(protocol.Won, ""), answer(protocol.Held, ""), answer(protocol.Unknown, "")
	planted := answer(protocol.Planted, protocol.Forgot)
	for name, c := range map[string]struct {
		renewal bool
		was     string
		answers []protocol.Answer
		want    string
	}{
		"a claim: a majority is paused":         {answers: []protocol.Answer{paused, won, paused}, want: "drill"},
		"a claim: one node is":                  {was: "old", answers: []protocol.Answer{paused, won, won}},
		"a claim: one node is, and one is held": {was: "old", answers: []protocol.Answer{paused, won, held}, want: "old"},
		"a claim: held, which hides a pause":    {was: "old", answers: []protocol.Answer{held, held, held}, want: "old"},
		"a claim: not paused any more":          {was: "old", answers: []protocol.Answer{won, won, unknown}},

		"a renewal: a majority is paused":   {renewal: true, answers: []protocol.Answer{noted, mine, noted}, want: "drill"},
		"a renewal: one node is":            {renewal: true, was: "old", answers: []protocol.Answer{noted, mine, mine}},
		"a renewal: nodes that can't tell":  {renewal: true, was: "old", answers: []protocol.Answer{noted, mine, unknown}, want: "old"},
		"a renewal: and none that can":      {renewal: true, answers: []protocol.Answer{noted, unknown, unknown}},
		"a renewal: other notes are others": {renewal: true, answers: []protocol.Answer{planted, planted, mine}},
		"a renewal: not paused any more":    {renewal: true, was: "old", answers: []protocol.Answer{mine, unknown, mine}},
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

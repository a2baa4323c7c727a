package elector

import (
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Each trace of an election keeps a candidate from taking a loss of data for a first
// start; a node without any leaves none.
func TestTracesOfAnElection(t *testing.T) {
	for _, c := range []struct {
		a      quorum.Answer
		traced bool
	}{
		{quorum.Answer{Status: quorum.Abstains}, false},
		{quorum.Answer{Status: quorum.Unknown}, false},
		{quorum.Answer{Status: quorum.Abstains, Fence: 1}, true},
		{quorum.Answer{Status: quorum.Won, Fence: 1}, true},
		{quorum.Answer{Status: quorum.Held}, true},
		{quorum.Answer{Status: quorum.Paused}, true},
		{quorum.Answer{Status: quorum.Reserved}, true},
	} {
		var k memory
		for range 2 { // it does not wear off
			k.learn(quorum.Tally{Answers: []quorum.Answer{{Status: quorum.Abstains}, c.a, {Status: quorum.Abstains}}})
			if k.traced != c.traced || k.highest != c.a.Fence {
				t.Errorf("%+v: traced %v, highest %d", c.a, k.traced, k.highest)
			}
			k.learn(quorum.Tally{Answers: []quorum.Answer{{Status: quorum.Abstains}}})
		}
	}
}

// An event wakes those on standby only where it is about their election, and reports an
// election or the end of a term.
func TestEventsForThoseOnStandby(t *testing.T) {
	e := offline(t, 1)
	event := func(election string, k EventKind, next string) string {
		return string(Event{Version: 1, Kind: k, Election: election, Candidate: "a", Token: 9, Next: next}.encode())
	}
	for payload, want := range map[string]quorum.WakeMessage{
		event("orders", EventElected, ""):   {Elected: true, Token: 9},
		event("orders", EventReleased, ""):  {Token: 9},
		event("orders", EventReleased, "b"): {Token: 9, First: quorum.Reservation("b")},
	} {
		if got, ok := e.wakeMessageIn(payload); !ok || got != want {
			t.Errorf("%s: %+v, %v", payload, got, ok)
		}
	}
	for _, payload := range []string{event("other", EventElected, ""), event("other", EventReleased, ""), event("orders", EventStopping, ""), "released 9 ", ""} {
		if got, ok := e.wakeMessageIn(payload); ok {
			t.Errorf("%s was read as %+v", payload, got)
		}
	}
}

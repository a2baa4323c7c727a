package elector

import (
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Each trace of an election keeps a candidate from taking a loss of data for a first
// start; a node without any leaves none.
func TestTracesOfAnElection(t *testing.T) {
	for _, c := range []struct {
		a      protocol.Answer
		traced bool
	}{
		{protocol.Answer{Status: protocol.Abstains}, false},
		{protocol.Answer{Status: protocol.Unknown}, false},
		{protocol.Answer{Status: protocol.Abstains, Fence: 1}, true},
		{protocol.Answer{Status: protocol.Won, Fence: 1}, true},
		{protocol.Answer{Status: protocol.Held}, true},
		{protocol.Answer{Status: protocol.Paused}, true},
		{protocol.Answer{Status: protocol.Reserved}, true},
	} {
		var k memory
		for range 2 { // it does not wear off
			k.learn(quorum.Tally{Answers: []protocol.Answer{{Status: protocol.Abstains}, c.a, {Status: protocol.Abstains}}})
			if k.traced != c.traced || k.highest != c.a.Fence {
				t.Errorf("%+v: traced %v, highest %d", c.a, k.traced, k.highest)
			}
			k.learn(quorum.Tally{Answers: []protocol.Answer{{Status: protocol.Abstains}}})
		}
	}
}

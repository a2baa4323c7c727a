package elector

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Each trace of an election keeps a candidate from taking a loss of data for a first
// start; a node without any leaves none.
func TestTracesOfAnElection(t *testing.T) {
	for _, c := range []struct {
		a      quorum.Answer
		traced bool
	}{
		{quorum.Answer{Status: quorum.New}, false},
		{quorum.Answer{Status: quorum.Unknown}, false},
		{quorum.Answer{Status: quorum.New, Fence: 1}, true},
		{quorum.Answer{Status: quorum.Won, Fence: 1}, true},
		{quorum.Answer{Status: quorum.Held}, true},
		{quorum.Answer{Status: quorum.Paused}, true},
		{quorum.Answer{Status: quorum.Kept}, true},
	} {
		var k known
		for range 2 { // it does not wear off
			k.alive(quorum.Tally{Answers: []quorum.Answer{{Status: quorum.New}, c.a, {Status: quorum.New}}})
			if k.traced != c.traced || k.highest != c.a.Fence {
				t.Errorf("%+v: traced %v, highest %d", c.a, k.traced, k.highest)
			}
			k.alive(quorum.Tally{Answers: []quorum.Answer{{Status: quorum.New}}})
		}
	}
}

// Followers come when a majority of the nodes can grant a claim: earlier is in vain, and
// later leaves the election without a leader.
func TestOpensWhenAMajorityCouldGrant(t *testing.T) {
	const s = time.Second
	left := func(status quorum.Status, d time.Duration) quorum.Answer {
		return quorum.Answer{Status: status, Left: d}
	}
	held := func(d time.Duration) quorum.Answer { return left(quorum.Held, d) }
	unknown, won := left(quorum.Unknown, 0), left(quorum.Won, 9*s)
	for _, c := range []struct {
		answers []quorum.Answer
		want    time.Duration
		ok      bool
	}{
		{[]quorum.Answer{held(3 * s), held(s), held(2 * s)}, 2 * s, true},
		{[]quorum.Answer{held(3 * s), unknown, held(s)}, 3 * s, true},
		{[]quorum.Answer{held(s), unknown, unknown}, 0, false},
		{[]quorum.Answer{held(s), unknown, left(quorum.Same, 0)}, 0, false},
		{[]quorum.Answer{won, held(s), held(2 * s)}, s, true},
		{[]quorum.Answer{won, won, held(2 * s)}, 0, true},
		{[]quorum.Answer{held(-1), held(s), held(2 * s)}, 2 * s, true},
		{[]quorum.Answer{held(-1), held(-1), held(2 * s)}, forGood, true},
		{[]quorum.Answer{left(quorum.Paused, 5*s), left(quorum.New, 4*s), left(quorum.Kept, 3*s)}, 4 * s, true},
	} {
		if got, ok := opensAt(quorum.Tally{Answers: c.answers}, 2); got != c.want || ok != c.ok {
			t.Errorf("%+v: %v, %v; want %v, %v", c.answers, got, ok, c.want, c.ok)
		}
	}
}

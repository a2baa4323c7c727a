package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// A poll ends with the majority that decides it: a release must not wait for a node that hangs. Without one it waits for
// the others as long as their round does.
func TestPollEndsWithAMajority(t *testing.T) {
	const ms, hangs = time.Millisecond, time.Hour
	type vote struct {
		after  time.Duration
		answer protocol.Status
	}
	for name, c := range map[string]struct {
		votes []vote
		want  time.Duration
	}{
		"alone":             {[]vote{{3 * ms, protocol.Released}}, 3 * ms},
		"yes":               {[]vote{{ms, protocol.Released}, {2 * ms, protocol.Released}, {hangs, protocol.Unknown}}, 2 * ms},
		"no":                {[]vote{{ms, protocol.NoLock}, {2 * ms, protocol.Taken}, {hangs, protocol.Unknown}}, 2 * ms},
		"split":             {[]vote{{ms, protocol.Released}, {2 * ms, protocol.NoLock}, {hangs, protocol.Unknown}}, 2*ms + WaitFactor*2*ms},
		"split, all answer": {[]vote{{ms, protocol.Released}, {2 * ms, protocol.NoLock}, {3 * ms, protocol.Released}}, 3 * ms},
		"errors":            {[]vote{{ms, protocol.Unknown}, {2 * ms, protocol.Released}, {5 * ms, protocol.Unknown}}, 5 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRound(len(c.votes), len(c.votes)/2+1, protocol.Released, func(node int) protocol.Answer {
					time.Sleep(c.votes[node].after)
					return protocol.Answer{Status: c.votes[node].answer}
				})
				began := time.Now()
				r.poll()
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %v, want %v", took, c.want)
				}
				time.Sleep(2 * hangs)
			})
		})
	}
}

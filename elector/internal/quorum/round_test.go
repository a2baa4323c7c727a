package quorum

import (
	"testing"
	"testing/synctest"
	"time"
)

// A poll ends with the majority that decides it: a release must not wait for a node that hangs. Without one it waits for
// the others as long as their round does.
func TestPollEndsWithAMajority(t *testing.T) {
	const ms, hangs = time.Millisecond, time.Hour
	type vote struct {
		after  time.Duration
		answer Status
	}
	for name, c := range map[string]struct {
		votes []vote
		want  time.Duration
	}{
		"alone":             {[]vote{{3 * ms, Released}}, 3 * ms},
		"yes":               {[]vote{{ms, Released}, {2 * ms, Released}, {hangs, Unknown}}, 2 * ms},
		"no":                {[]vote{{ms, NoLock}, {2 * ms, Taken}, {hangs, Unknown}}, 2 * ms},
		"split":             {[]vote{{ms, Released}, {2 * ms, NoLock}, {hangs, Unknown}}, 2*ms + waitFactor*2*ms},
		"split, all answer": {[]vote{{ms, Released}, {2 * ms, NoLock}, {3 * ms, Released}}, 3 * ms},
		"errors":            {[]vote{{ms, Unknown}, {2 * ms, Released}, {5 * ms, Unknown}}, 5 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRound(len(c.votes), len(c.votes)/2+1, Released, func(node int) Answer {
					time.Sleep(c.votes[node].after)
					return Answer{Status: c.votes[node].answer}
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

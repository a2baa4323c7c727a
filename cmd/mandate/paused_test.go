package main

import "testing"

// Who paused an election, and why, stands once in what a step-down reports.
func TestPausedText(t *testing.T) {
	const gone = "no leader: a has stepped down, and no leader will be elected until the pause ends (by ann: disk)"
	for problem, want := range map[string]string{
		"no leader": "no leader: the election is paused (by ann: disk)",
		gone:        gone,
	} {
		if got := pausedText(problem, "by ann: disk"); got != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
}

package registry

import (
	"slices"
	"testing"
	"time"
)

// On a busy machine the patience ends while answers that came in time wait to be read:
// a node that has answered is not said to hang.
func TestAnswersThatCameInTimeAreRead(t *testing.T) {
	over := make(chan time.Time)
	close(over)
	for range 100 {
		seen, answers := make([]timedView, 5), make(chan timedView, 5)
		for i := range seen {
			answers <- timedView{node: i, View: View{Node: "answered"}}
		}
		gather(seen, answers, func() <-chan time.Time { return over })
		if i := slices.IndexFunc(seen, func(s timedView) bool { return s.Node == "" }); i >= 0 {
			t.Fatalf("node %d has answered, and does not count", i)
		}
	}
}

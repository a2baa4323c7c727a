package quorum

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// Requests that elections make equally often are due at the same few moments, never later than
// asked for, and none more often than that but for the first.
func TestDueTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := &Nodes{opened: time.Now()}
		const every = 750 * time.Millisecond
		seen := map[time.Duration]bool{}
		for range 1000 {
			time.Sleep(rand.N(every))
			late := rand.N(every / 50) // a timer, and an answer
			in := ns.AlignToMoment(every-late, every)
			if in > every-late || in <= every-late-every/moments {
				t.Fatalf("due in %v, asked for %v", in, every-late)
			}
			time.Sleep(in)
			seen[time.Since(ns.opened)%every] = true
			time.Sleep(late)
			if next := ns.AlignToMoment(every-late, every); next != every-late {
				t.Fatalf("the one after it is due in %v, %v after the one before", next, next+late)
			}
		}
		if len(seen) > moments+1 {
			t.Errorf("requests are due at %d moments of %v", len(seen), every)
		}
		if in := ns.AlignToMoment(-time.Second, every); in != 0 {
			t.Errorf("what is late is due in %v", in)
		}
	})
}

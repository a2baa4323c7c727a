package quorum

import (
	"testing"
	"time"
)

func TestLinkedRedsyncWorks(t *testing.T) {
	for range 200 { // its goroutines come in any order
		if err := redsyncWorks(func() redlock { return newRedlock(3, "key", "value", time.Minute) }); err != nil {
			t.Fatal(err)
		}
	}
}

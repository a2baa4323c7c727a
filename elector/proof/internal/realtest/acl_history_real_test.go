package realtest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/internal/servertest"
)

// A user that may not name the keys of the histories: the node refuses the whole call of the script. The election
// works, and the missing right is named once.
func TestRealACLWithoutTheKeysOfHistories(t *testing.T) {
	t.Parallel()
	rights := append(slices.DeleteFunc(shipped(t, candidates), func(right string) bool { return right == "~mandate:*" }), "~mandate:{*}:[^h]*")
	s := guarded(t, candidates, rights)
	el := newElectorate(t)
	a := el.join("a", as(t, candidates, s))
	_, term := el.next(0, el.lease+slack)
	servertest.Eventually(t, slack, "the missing right is logged", func() bool { return len(a.Log.Lines("cannot record history")) > 0 })
	el.survives(term, el.lease)
	began := time.Now()
	a.shutdown() // it does not wait for what the node never records
	if d := time.Since(began); d > el.lease/4 {
		t.Errorf("shut down within %v", d)
	}
	if logged := a.Log.Lines("cannot record history"); len(logged) != 1 || !strings.Contains(logged[0], "ACL SETUSER mandate ~mandate:{orders}:history") {
		t.Errorf("%q", logged)
	}
}

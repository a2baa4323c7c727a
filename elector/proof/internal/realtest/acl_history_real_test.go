package realtest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// A user that may not name the keys of the histories: the node refuses the whole call of the script. The election and
// the cordons work, and the missing right is named once.
func TestRealACLWithoutTheKeysOfHistories(t *testing.T) {
	t.Parallel()
	rights := append(slices.DeleteFunc(shipped(t, candidates), func(right string) bool { return right == "~mandate:*" }),
		"~mandate:{*}:[^h]*", "~mandate:cordons", "+hset", "+hdel")
	s := guarded(t, candidates, rights)
	el := newElectorate(t)
	a := el.join("a", as(t, candidates, s))
	_, term := el.next(0, el.lease+slack)
	servertest.Eventually(t, slack, "the missing right is logged", func() bool { return len(a.Log.Lines("cannot record history")) > 0 })
	el.survives(term, el.lease)

	err := a.Q.Cordon(t.Context(), elector.Cordon{ID: "a", Drain: true})
	if !errors.Is(err, elector.ErrNotRecorded) || !strings.Contains(err.Error(), "needs +xadd ~mandate:{}:history") || !strings.Contains(err.Error(), "ACL SETUSER mandate (+xadd ~mandate:{}:history)") {
		t.Errorf("a cordon: %v", err)
	}
	b := el.join("b", as(t, candidates, s))
	if err := b.leadsOrEnds(2*el.lease + slack); err != nil { // a hands over
		t.Fatal(err)
	}
	began := time.Now()
	b.shutdown() // it does not wait for what the node never records
	if d := time.Since(began); d > el.lease/4 {
		t.Errorf("shut down within %v", d)
	}
	for _, x := range []*candidate{a, b} {
		if logged := x.Log.Lines("cannot record history"); len(logged) != 1 || !strings.Contains(logged[0], "ACL SETUSER mandate ~mandate:{orders}:history") {
			t.Errorf("%s: %q", x.ID(), logged)
		}
	}
}

//go:build unix

package realtest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// steers is what an operator does, while two candidates take part.
func steers(t *testing.T, s *servertest.Server) (complaints []string) {
	t.Helper()
	complain := func(what string, err error) {
		if errors.Is(err, elector.ErrDenied) && !strings.Contains(err.Error(), "needs +") {
			t.Errorf("%s: the missing right is not named: %v", what, err)
		}
		t.Logf("%s: %v", what, err)
		complaints = append(complaints, what)
	}
	el := newElectorate(t)
	for _, id := range []string{"a", "b"} {
		el.join(id, as(t, candidates, s))
	}
	q := as(t, operator, s)
	leads, term := el.next(0, el.lease+slack)
	other := map[string]string{"a": "b", "b": "a"}[leads.ID()]
	receiveRollCalls(t, s, 2)
	if all, err := electionOf(q, "orders").Candidates(t.Context()); err != nil || len(all) != 2 {
		complain("no roll call", err)
	}
	move := func(what string, err error) {
		if err == nil {
			_, term = el.next(term.Token(), el.lease+slack)
			return
		}
		complain(what, err)
		el.survives(term, el.lease/4) // a hopeless request has stopped nothing
	}
	_, err := electionOf(q, "orders").Transfer(t.Context(), other)
	move("no transfer", err)
	_, err = electionOf(q, "orders").StepDown(t.Context(), "a test")
	move("no resignation", err)
	if err := electionOf(q, "orders").Pause(t.Context(), time.Minute, "a test"); err != nil {
		complain("no pause", err)
	} else if past, err := electionOf(as(t, candidates, s), "orders").Pauses(t.Context()); err != nil || len(past) != 1 {
		complain("no record of the pause", err)
	}
	if err := electionOf(q, "orders").Resume(t.Context()); err != nil {
		complain("no resumption", err)
	}
	return complaints
}

// The operator may look, and steer, and take nobody's lock.
func TestRealACLOperatorIsEnough(t *testing.T) {
	t.Parallel()
	s := guarded(t, operator, shipped(t, operator))
	if all := steers(t, s); len(all) > 0 {
		t.Errorf("with the shipped rights: %q", all)
	}
	if all := denied(t, s, operator); len(all) > 0 {
		t.Errorf("the server refused %q", all)
	}
	s.Do(t, "FLUSHALL")
	if all := sight(t, s, operator); len(all) > 0 {
		t.Errorf("with the shipped rights: %q", all)
	}
	if all := denied(t, s, operator); len(all) > 0 {
		t.Errorf("the server refused %q", all)
	}
	c := s.Client(t)
	for _, harm := range [][]any{
		{"EVAL", "return 1", "0"},
		{"DEL", "mandate:{orders}:lock"},
		{"SET", "mandate:{orders}:fence", "0"},
		{"DEL", "mandate:{orders}:history"},
		{"XADD", "mandate:{orders}:lock", "*", "a", "b"},
		{"PUBLISH", "mandate:{orders}:events", "x"},
	} {
		answer := c.Do(t.Context(), append([]any{"ACL", "DRYRUN", operator}, harm...)...).String()
		if !strings.Contains(answer, "no permissions") != (harm[0] == "PUBLISH") {
			t.Errorf("an operator's %q: %s", harm, answer)
		}
	}
}

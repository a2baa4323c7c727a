//go:build unix

package realtest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/electortest/servertest"
)

// sight is all that looking at an election takes: who leads and since when, the
// history, the list of elections, changes as they happen. It returns what could not
// be seen.
func sight(t *testing.T, s *servertest.Server, user string) (complaints []string) {
	t.Helper()
	complain := func(what string) { complaints = append(complaints, what) }
	el := newElectorate(t)
	el.forgives = true // nothing here is about that
	a := el.join("a", as(t, candidates, s))
	_, _ = el.next(0, el.lease+slack)
	q := as(t, user, s)
	e, err := elector.New(q, elector.Config{Election: "orders", ID: "looks", Lease: el.lease})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan elector.Event, 100)
	events := observe(t.Context(), e.Election())
	go func() {
		for ev := range events {
			seen <- ev
		}
	}()
	servertest.Eventually(t, slack, "the history tells of the election", func() bool {
		terms, err := electionOf(a.Q, "orders").History(t.Context(), 1)
		return err == nil && len(terms) == 1
	})
	if st, err := electionOf(q, "orders").Status(t.Context()); err != nil || st.Leader == nil {
		complain("no status")
	} else if st.Leader.Since.IsZero() {
		complain("no since")
	}
	if terms, err := electionOf(q, "orders").History(t.Context(), 10); err != nil || len(terms) == 0 || !terms[0].Current {
		complain("no history")
		if len(terms) > 0 && terms[0].Reason != "" {
			t.Errorf("the sitting leader's term has ended: %+v", terms[0])
		}
	}
	if names, err := q.Elections(t.Context()); err != nil || !slices.Equal(names, []string{"orders"}) {
		complain("no list")
	}
	time.Sleep(el.lease / 4) // the observer has subscribed, if it may
	a.shutdown()
	if !hears(seen, el.lease/2, func(ev elector.Event) bool { return ev.Kind == elector.EventReleased }) {
		complain("no news")
	}
	return complaints
}

// steers is what an operator does, while two candidates take part.
func steers(t *testing.T, s *servertest.Server) (complaints []string) {
	t.Helper()
	complain := func(what string, err error) {
		if errors.Is(err, elector.ErrDenied) && !strings.Contains(err.Error(), "needs +") {
			t.Errorf("%s: the missing right is not named: %v", what, err)
		}
		complaints = append(complaints, what)
	}
	el := newElectorate(t)
	for _, id := range []string{"a", "b"} {
		el.join(id, as(t, candidates, s))
	}
	q := as(t, operator, s)
	leads, _ := el.next(0, el.lease+slack)
	other := map[string]string{"a": "b", "b": "a"}[leads.ID()]
	if all, err := electionOf(q, "orders").Candidates(t.Context()); err != nil || len(all) != 2 {
		complain("no roll call", err)
	}
	if _, err := electionOf(q, "orders").Transfer(t.Context(), other); err != nil {
		complain("no transfer", err)
	}
	if _, err := electionOf(q, "orders").StepDown(t.Context(), "a test"); err != nil {
		complain("no resignation", err)
	}
	if err := electionOf(q, "orders").Pause(t.Context(), time.Minute, "a test"); err != nil {
		complain("no pause", err)
	}
	if err := electionOf(q, "orders").Resume(t.Context()); err != nil {
		complain("no resumption", err)
	}
	return complaints
}

// The reader may look at everything but the roll, without any refusal, and may
// do nothing; doctor has nothing to complain of.
func TestRealACLReaderIsEnough(t *testing.T) {
	t.Parallel()
	s := guarded(t, reader, shipped(t, reader))
	if all := sight(t, s, reader); len(all) > 0 {
		t.Errorf("with the shipped rights: %q", all)
	}
	if all := denied(t, s, reader); len(all) > 0 {
		t.Errorf("the server refused %q", all)
	}
	el := newElectorate(t)
	el.join("b", as(t, candidates, s))
	_, term := el.next(0, 2*el.lease+slack)
	q := as(t, reader, s)
	found, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders"})
	if err != nil {
		t.Error(err)
	}
	for _, f := range found {
		if f.Level.Worse(doctor.LevelUnknown) && f.Check != "persistence" {
			t.Errorf("doctor: %+v", f)
		}
	}
	_, roll := electionOf(q, "orders").Candidates(t.Context())
	_, resign := electionOf(q, "orders").StepDown(t.Context(), "")
	_, transfer := electionOf(q, "orders").Transfer(t.Context(), "b")
	for needs, err := range map[string]error{
		"+subscribe &mandate:{orders}:ask:": roll,
		"+subscribe  &mandate:{orders}:ask": resign,
		"+subscribe   &mandate:{orders}:as": transfer,
		"+set ~mandate:{orders}:pause":      electionOf(q, "orders").Pause(t.Context(), time.Minute, ""),
		"+del ~mandate:{orders}:pause":      electionOf(q, "orders").Resume(t.Context()),
	} {
		if needs = strings.Join(strings.Fields(needs), " "); !errors.Is(err, elector.ErrDenied) || !strings.Contains(err.Error(), "needs "+needs) {
			t.Errorf("says %v, want that it needs %s", err, needs)
		}
	}
	// Whoever may run scripts, write, or publish where candidates listen can do harm.
	c := s.Client(t)
	for _, harm := range [][]any{
		{"EVAL", "return 1", "0"},
		{"DEL", "mandate:{orders}:lock"},
		{"SET", "mandate:{orders}:lock", "x"},
		{"PUBLISH", "mandate:{orders}:ask", "x"},
		{"PUBLISH", "mandate:{orders}:events", "x"},
		{"PUBLISH", "mandate:{orders}:wake", "x"},
	} {
		answer := c.Do(t.Context(), append([]any{"ACL", "DRYRUN", reader}, harm...)...).String()
		if !strings.Contains(answer, "no permissions") {
			t.Errorf("a reader's %q: %s", harm, answer)
		}
	}
	el.survives(term, el.lease)
}

// Less is not enough to look.
func TestRealACLReaderLessIsNotEnough(t *testing.T) {
	t.Parallel()
	misses := map[string][]string{
		"%R~mandate:*":        {"no status", "no history", "no news"},
		"+get":                {"no status", "no history", "no news"},
		"+pttl":               {"no status", "no history", "no news"},
		"+xrevrange":          {"no since", "no history"},
		"+scan":               {"no list"},
		"&mandate:{*}:events": {"no news"},
		"+subscribe":          {"no news"},
		"+unsubscribe":        nil, // the refusal costs the connection, and maybe a message
		"+ping":               nil, // the sign of life after half a minute of silence
	}
	all := shipped(t, reader)
	for i, right := range all {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s := guarded(t, reader, slices.Concat(all[:i], all[i+1:]))
			got := sight(t, s, reader)
			want, known := misses[right]
			if !known || !slices.Equal(got, want) {
				t.Errorf("without %s: %q, want %q", right, got, want)
			}
			if right == "+ping" {
				signOfLife(t, s, reader)
			}
			if right == "+unsubscribe" {
				return // it is sent only when another subscription is left
			}
			if refused := denied(t, s, reader); len(refused) == 0 {
				t.Errorf("nothing was refused without %s: it is not needed", right)
			}
		})
	}
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
		{"PUBLISH", "mandate:{orders}:events", "x"},
	} {
		answer := c.Do(t.Context(), append([]any{"ACL", "DRYRUN", operator}, harm...)...).String()
		if !strings.Contains(answer, "no permissions") != (harm[0] == "PUBLISH") {
			t.Errorf("an operator's %q: %s", harm, answer)
		}
	}
}

// Less is not enough to steer.
func TestRealACLOperatorLessIsNotEnough(t *testing.T) {
	t.Parallel()
	none := []string{"no roll call", "no transfer", "no resignation"}
	moves := []string{"no transfer", "no resignation"}
	misses := map[string][]string{
		"%R~mandate:*":        moves,
		"+get":                moves,
		"+pttl":               moves,
		"~mandate:{*}:pause":  {"no pause", "no resumption"},
		"+set":                {"no pause"},
		"+del":                {"no resumption"},
		"&mandate:{*}:ask":    none,
		"&mandate:{*}:ask:*":  none,
		"+publish":            none,
		"+subscribe":          none,
		"&mandate:{*}:events": nil, // the gap of a handover is not known
		"+pubsub|numsub":      nil, // a roll call waits for its limit
		"+unsubscribe":        nil,
		"+xrevrange":          nil, // the reader's, as are these
		"+scan":               nil,
		"+ping":               nil,
	}
	all := shipped(t, operator)
	for i, right := range all {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s := guarded(t, operator, slices.Concat(all[:i], all[i+1:]))
			want, known := misses[right]
			if got := steers(t, s); !known || !slices.Equal(got, want) {
				t.Errorf("without %s: %q, want %q", right, got, want)
			}
		})
	}
}

//go:build unix

package realtest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// sight is all that looking at an election takes: who leads and since when, the
// history, the list of elections, the roll call, changes as they happen. It returns what
// could not be seen.
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
	servertest.Eventually(t, slack, "the history tells of the election", func() bool {
		terms, err := electionOf(a.Q, "orders").History(t.Context(), 1)
		return err == nil && len(terms) == 1
	})
	if st, err := electionOf(q, "orders").Status(t.Context()); err != nil || st.Leader == nil {
		complain("no status")
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
	receiveRollCalls(t, s, 1)
	if all, err := electionOf(q, "orders").Candidates(t.Context()); err != nil || len(all) == 0 {
		complain("no roll call")
		if err == nil || !strings.Contains(err.Error(), "needs +") {
			t.Errorf("the missing right is not named: %v", err)
		}
	}
	seen := make(chan elector.Event, 100)
	events := observe(t.Context(), e.Election())
	go func() {
		for ev := range events {
			seen <- ev
		}
	}()
	// One that receives no messages looks a lease after it began: what it finds then must not
	// be taken for news.
	time.Sleep(el.lease / 4) // it has subscribed, if it may
	a.shutdown()
	if !receives(seen, el.lease*3/8, func(ev elector.Event) bool { return ev.Kind == elector.EventReleased }) {
		complain("no news")
	}
	return complaints
}

// receiveRollCalls waits until so many candidates have subscribed: one that has not yet, on a
// busy machine, cannot answer.
func receiveRollCalls(t *testing.T, s *servertest.Server, candidates int64) {
	t.Helper()
	const roll = "mandate:{orders}:roll"
	c := s.Client(t)
	servertest.Eventually(t, lease+slack, "the candidates receive roll calls", func() bool {
		return c.PubSubNumSub(t.Context(), roll).Val()[roll] >= candidates
	})
}

// The reader may look at everything, without any refusal, and may do nothing; doctor has
// nothing to complain of.
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
	// status of an operator leaves this key for a moment.
	s.Client(t).Set(t.Context(), "mandate:{orders}:check", "", time.Minute)
	found, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders"})
	if err != nil {
		t.Error(err)
	}
	for _, f := range found {
		if f.Level.Worse(doctor.LevelUnknown) && f.Check != "persistence" || f.Level == doctor.LevelUnknown && f.Check == "candidates" {
			t.Errorf("doctor: %+v", f)
		}
	}
	_, resign := electionOf(q, "orders").StepDown(t.Context(), "")
	_, transfer := electionOf(q, "orders").Transfer(t.Context(), "b")
	for needs, err := range map[string]error{
		"+subscribe &mandate:{orders}:ask:": resign,
		"+set ~mandate:{orders}:pause":      electionOf(q, "orders").Pause(t.Context(), time.Minute, ""),
		"+del ~mandate:{orders}:pause":      electionOf(q, "orders").Resume(t.Context()),
	} {
		wantDenied(t, err, needs)
	}
	if !errors.Is(transfer, elector.ErrRefused) || !strings.Contains(transfer.Error(), "already the leader") {
		t.Errorf("a transfer to the leader: %v", transfer)
	}
	el.survives(term, el.lease)
}

func wantDenied(t *testing.T, err error, needs string) {
	t.Helper()
	if !errors.Is(err, elector.ErrDenied) || !strings.Contains(err.Error(), "needs "+needs) {
		t.Errorf("says %v, want that it needs %s", err, needs)
	}
}

// Whoever may run scripts, write, or publish where candidates listen can do harm. A reader
// may publish roll calls, and nothing else counts on their channel.
func TestRealACLReaderDoesNoHarm(t *testing.T) {
	t.Parallel()
	s := guarded(t, reader, shipped(t, reader))
	el := newElectorate(t)
	el.join("a", as(t, candidates, s))
	el.join("b", as(t, candidates, s))
	leader, term := el.next(0, el.lease+slack)
	follows(t, s.Client(t))
	c := s.Client(t, func(o *redis.Options) { o.Username, o.Password = reader, "change-me" })
	token := term.Token()
	stepDown := fmt.Sprintf(`{"v":1,"kind":"hand-over","election":"orders","nonce":"N","leader":"%s","token":%d}`, leader.Incarnation(), token)
	for _, harm := range [][]any{
		{"EVAL", "return redis.call('DEL', KEYS[1])", "1", "mandate:{orders}:lock"},
		{"DEL", "mandate:{orders}:lock"},
		{"SET", "mandate:{orders}:lock", "x"},
		{"PUBLISH", "mandate:{orders}:ask", stepDown},
		{"PUBLISH", "mandate:{orders}:events", fmt.Sprintf("1 elected %d  {}", token+1)},
		{"PUBLISH", "mandate:{orders}:ask:N", `{"v":1,"refused":"no"}`},                                               // the leader's answer to an operator
		{"PUBLISH", "mandate:{orders}:roll:N", `{"v":1,"card":{"id":"ghost","incarnation":"g1","role":"following"}}`}, // a candidate's answer
		{"SUBSCRIBE", "mandate:{orders}:ask"},                                                                         // an operator's requests
		{"SUBSCRIBE", "mandate:{orders}:roll"},                                                                        // other readers' roll calls, which could be answered
		{"PSUBSCRIBE", "mandate:{*}:roll:*"},
	} {
		if err := c.Do(t.Context(), harm...).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			t.Errorf("a reader's %q: %v", harm, err)
		}
	}
	received, err := c.Publish(t.Context(), "mandate:{orders}:roll", stepDown).Result()
	if err != nil || received < 2 {
		t.Errorf("%d candidates receive what a reader publishes, %v: nothing is tested", received, err)
	}
	el.survives(term, el.lease)
}

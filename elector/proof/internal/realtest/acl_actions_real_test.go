//go:build unix

package realtest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A hopeless step is refused before the leader has stopped anything: a request that the
// operator may send, but whose answer it may not receive, would end a term and report
// a failure.
func TestRealACLOperatorLessStepDowns(t *testing.T) {
	t.Parallel()
	const rollCall = time.Second // a roll call waits for so long where it can't count the candidates
	const (
		reads = "+get %R~mandate:{orders}:lock"
		ask   = "&mandate:{orders}:ask"
		roll  = "&mandate:{orders}:roll"
	)
	for right, want := range map[string]stepDowns{
		"%R~mandate:*":        {transfer: reads, resign: reads},
		"+get":                {transfer: reads, resign: reads},
		"+pttl":               {transfer: "+pttl %R~mandate:{orders}:lock", resign: "+pttl %R~mandate:{orders}:lock"},
		"&mandate:{*}:ask":    {transfer: "+publish " + ask, resign: "+publish " + ask},
		"&mandate:{*}:ask:*":  {transfer: "+subscribe " + ask + ":", resign: "+subscribe " + ask + ":"},
		"&mandate:{*}:roll":   {transfer: "+publish " + roll},
		"&mandate:{*}:roll:*": {transfer: "+subscribe " + roll + ":"},
		"+publish":            {transfer: "+publish " + roll, resign: "+publish " + ask},
		"+subscribe":          {transfer: "+subscribe " + roll + ":", resign: "+subscribe " + ask + ":"},
		"+pubsub|numsub":      {used: true, rollCall: rollCall},
		"&mandate:{*}:events": {used: true}, // the change is seen at the next look
		"+xrevrange":          {used: true, gapless: true},
		"+unsubscribe":        {used: true}, // the refusal costs the connection
		"~mandate:{*}:pause":  {},           // pause and resume need these
		"~mandate:{*}:check":  {used: true}, // whether the nodes take writes is then not known
		"+set":                {used: true},
		"+del":                {},
		"+scan":               {}, // ls
		"+pubsub|channels":    {}, // the same
		"+ping":               {}, // half a minute of silence
		// The record of a pause.
		"(+xadd %W~mandate:{*}:history)": {},
	} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			all := shipped(t, operator)
			less := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == right })
			if len(less) != len(all)-1 {
				t.Fatalf("%s is none of the shipped rights %q", right, all)
			}
			want.check(t, less)
		})
	}
	if n := len(shipped(t, operator)); n != 22 {
		t.Errorf("the operator has %d rights: some are not tested here", n)
	}
}

// stepDowns is what resign and transfer do for an operator who lacks one right.
type stepDowns struct {
	transfer, resign string // what each is refused with: the leader keeps its term; "": it works
	used             bool   // they work, although Redis refuses something
	rollCall         time.Duration
	gapless          bool // the time without a leader is not known
}

func (want stepDowns) check(t *testing.T, rights []string) {
	s := guarded(t, operator, rights)
	el := newElectorate(t)
	for _, id := range []string{"a", "b"} {
		el.join(id, as(t, candidates, s))
	}
	leader, term := el.next(0, el.lease+slack)
	follows(t, s)
	q := as(t, operator, s)
	other := map[string]string{"a": "b", "b": "a"}

	began := time.Now()
	h, err := electionOf(q, "orders").Transfer(t.Context(), other[leader.ID()])
	if took := time.Since(began); want.transfer == "" && took < want.rollCall || took > want.rollCall+slack {
		t.Errorf("the transfer took %v", took)
	}
	want.outcome(t, want.transfer, h, err)
	if want.transfer == "" {
		if h.To.Candidate != other[leader.ID()] {
			t.Errorf("transferred to %q", h.To.Candidate)
		}
		el.ends(term, slack, elector.ReasonHandover)
		leader, term = el.next(term.Token(), el.lease+slack)
	}
	el.survives(term, el.lease) // and a former leader has rested, and follows

	began = time.Now()
	h, err = electionOf(q, "orders").StepDown(t.Context(), "a test")
	if took := time.Since(began); took > slack {
		t.Errorf("the resignation took %v", took)
	}
	want.outcome(t, want.resign, h, err)
	if want.resign == "" {
		if h.From.Candidate != leader.ID() || h.To.Candidate != other[leader.ID()] {
			t.Errorf("%q resigned, %q leads", h.From.Candidate, h.To.Candidate)
		}
		el.ends(term, slack, elector.ReasonResigned)
	} else {
		el.survives(term, el.lease)
	}
	if refused := denied(t, s, operator); len(refused) > 0 != (want.used || want.transfer != "" || want.resign != "") {
		t.Errorf("the server refused %q", refused)
	}
}

// outcome checks what was returned.
func (want stepDowns) outcome(t *testing.T, needs string, h elector.Handover, err error) {
	t.Helper()
	switch {
	case needs != "":
		if !errors.Is(err, elector.ErrDenied) || !strings.Contains(err.Error(), "needs "+needs) {
			t.Errorf("returned %v, want that it needs %s", err, needs)
		}
	case err != nil:
		t.Error(err)
	case want.gapless != (h.Gap == 0):
		t.Errorf("the gap is %v", h.Gap)
	}
}

// Candidates that may not publish can't answer an operator: a leader that is asked to step
// down obeys all the same, and that is what the operator is told.
func TestRealACLStepDownOfCandidatesThatMayNotPublish(t *testing.T) {
	t.Parallel()
	less := slices.DeleteFunc(shipped(t, candidates), func(r string) bool { return r == "+publish" })
	s := guarded(t, candidates, less)
	el := newElectorate(t)
	for _, id := range []string{"a", "b"} {
		el.join(id, as(t, candidates, s))
	}
	leader, term := el.next(0, el.lease+slack)
	h, err := electionOf(as(t, operator, s), "orders").StepDown(t.Context(), "a test")
	if err != nil || h.From.Candidate != leader.ID() || h.To.Token <= term.Token() {
		t.Errorf("%+v, %v", h, err)
	}
	el.ends(term, slack, elector.ReasonResigned)
}

package elector

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// What a lost claim shows of another candidate with which this one must not share an
// election; nothing else keeps it from leading.
func TestRefusal(t *testing.T) {
	held := func(value string) protocol.Answer { return protocol.Answer{Status: protocol.Held, Holder: value} }
	won, unknown := protocol.Answer{Status: protocol.Won}, protocol.Answer{Status: protocol.Unknown}
	good := held("a/a1/1 n=3 lease=10000 token=7")
	for name, c := range map[string]struct {
		answers []protocol.Answer
		refuses bool
	}{
		"another one, of the same nodes and lease": {answers: []protocol.Answer{good, good, good}},
		"it counts other nodes":                    {answers: []protocol.Answer{won, won, held("a/a1/1 n=5 lease=10000 token=7")}, refuses: true},
		"it has another lease":                     {answers: []protocol.Answer{won, won, held("a/a1/1 n=3 lease=10001 token=7")}, refuses: true},
		"the second one has":                       {answers: []protocol.Answer{good, held("b/b1/1 n=3 lease=10001 token=7"), won}, refuses: true},
		"a stranger's key on a majority":           {answers: []protocol.Answer{held("mine"), held("mine"), unknown}, refuses: true},
		"a stranger's key on a minority":           {answers: []protocol.Answer{won, won, held("mine")}},
		"that hides nothing":                       {answers: []protocol.Answer{held("mine"), won, won, held("a/a1/1 n=3 lease=10000 token=7")}, refuses: true},
		"a lock that stood in nobody's way":        {answers: []protocol.Answer{won, won, {Status: protocol.Won, Holder: "a/a1/1 n=5 lease=10000 token=7"}}},
	} {
		m := offlineMachine(t, 3)
		if no := m.refusal(m.nodes.Tally(c.answers, 0)); no.refuses() != c.refuses {
			t.Errorf("%s: refuses %v (%v)", name, no.refuses(), no.err)
		}
	}
	m := offlineMachine(t, 3)
	same := protocol.Answer{Status: protocol.SameServer}
	if no := m.refusal(m.nodes.Tally([]protocol.Answer{won, won, same}, 0)); !no.refuses() {
		t.Error("one server under two names votes twice")
	}
}

// A lock under this candidate's own id is logged once: an earlier life of it, or a twin.
func TestLockUnderTheSameIDIsNoticedOnce(t *testing.T) {
	m := offlineMachine(t, 3)
	for _, c := range []struct {
		holder string
		twin   bool
	}{{"a/x/1", false}, {"me/" + m.incarnation + "/1", false}, {"me/x/1", true}} {
		h := protocol.Answer{Status: protocol.Held, Holder: c.holder + " n=3 lease=10000 token=7"}
		m.refusal(m.nodes.Tally([]protocol.Answer{h, h, h}, 0))
		if m.memory.twinLogged != c.twin {
			t.Errorf("%s: %v", c.holder, m.memory.twinLogged)
		}
	}
}

// Another list of nodes is refused at once. It is reported when the lock is met at every
// claim: messages that arrived late name nodes as they were, and their lock lapses.
func TestOtherListIsReportedOnceItsLockIsMetAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := offlineMachine(t, 3)
		won := protocol.Answer{Status: protocol.Won}
		answers := func(seq int) []protocol.Answer {
			all := []protocol.Answer{{Status: protocol.Won}, {Status: protocol.Won}, {Status: protocol.Held}}
			for i := range all {
				all[i].ID, all[i].Settled = fmt.Sprint("N", i), true
			}
			all[2].Holder = fmt.Sprintf("a/a1/%d n=3 lease=10000 ids=X,Y,N2 token=7", seq)
			return all
		}
		for i, c := range []struct {
			after    time.Duration
			seq      int
			reported bool
		}{
			{0, 1, false}, {25 * time.Second, 1, false}, {time.Second, 1, true}, {10 * time.Second, 2, false}, {25 * time.Second, 2, false}, {time.Second, 2, true},
		} {
			time.Sleep(c.after)
			no := m.refusal(m.nodes.Tally(answers(c.seq), 0))
			if !no.refuses() || (no.err != nil) != c.reported {
				t.Errorf("%d: refuses %v, %v", i, no.refuses(), no.err)
			}
		}
		// A claim that does not meet it begins anew.
		if no := m.refusal(m.nodes.Tally([]protocol.Answer{won, won, won}, 0)); no.refuses() {
			t.Error(no.err)
		}
		if no := m.refusal(m.nodes.Tally(answers(2), 0)); !no.refuses() || no.err != nil {
			t.Errorf("met again: refuses %v, %v", no.refuses(), no.err)
		}
	})
}

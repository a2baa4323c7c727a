package elector

import (
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// What a lost claim shows of another candidate with which this one must not share an
// election; nothing else keeps it from leading.
func TestRefusal(t *testing.T) {
	held := func(value string) quorum.Answer { return quorum.Answer{Status: quorum.Held, Holder: value} }
	won, unknown := quorum.Answer{Status: quorum.Won}, quorum.Answer{Status: quorum.Unknown}
	good := held("a/a1/1 n=3 lease=10000 token=7")
	for name, c := range map[string]struct {
		answers []quorum.Answer
		refuses bool
	}{
		"another one, of the same nodes and lease": {answers: []quorum.Answer{good, good, good}},
		"it counts other nodes":                    {answers: []quorum.Answer{won, won, held("a/a1/1 n=5 lease=10000 token=7")}, refuses: true},
		"it has another lease":                     {answers: []quorum.Answer{won, won, held("a/a1/1 n=3 lease=10001 token=7")}, refuses: true},
		"the second one has":                       {answers: []quorum.Answer{good, held("b/b1/1 n=3 lease=10001 token=7"), won}, refuses: true},
		"a stranger's key on a majority":           {answers: []quorum.Answer{held("mine"), held("mine"), unknown}, refuses: true},
		"a stranger's key on a minority":           {answers: []quorum.Answer{won, won, held("mine")}},
		"that hides nothing":                       {answers: []quorum.Answer{held("mine"), won, won, held("a/a1/1 n=3 lease=10000 token=7")}, refuses: true},
		"a lock that stood in nobody's way":        {answers: []quorum.Answer{won, won, {Status: quorum.Won, Holder: "a/a1/1 n=5 lease=10000 token=7"}}},
	} {
		e := offline(t, 3)
		if no := e.refusal(e.quorum.nodes.Tally(c.answers, 0)); no.refuses() != c.refuses {
			t.Errorf("%s: refuses %v (%v)", name, no.refuses(), no.err)
		}
	}
	e := offline(t, 3)
	same := quorum.Answer{Status: quorum.Same}
	if no := e.refusal(e.quorum.nodes.Tally([]quorum.Answer{won, won, same}, 0)); !no.refuses() {
		t.Error("one server under two names votes twice")
	}
}

// A lock under this candidate's own id is logged once: an earlier life of it, or a twin.
func TestLockUnderTheSameIDIsNoticedOnce(t *testing.T) {
	e := offline(t, 3)
	for _, c := range []struct {
		holder string
		twin   bool
	}{{"a/x/1", false}, {"me/" + e.incarnation + "/1", false}, {"me/x/1", true}} {
		h := quorum.Answer{Status: quorum.Held, Holder: c.holder + " n=3 lease=10000 token=7"}
		e.refusal(e.quorum.nodes.Tally([]quorum.Answer{h, h, h}, 0))
		if e.known.twin != c.twin {
			t.Errorf("%s: %v", c.holder, e.known.twin)
		}
	}
}

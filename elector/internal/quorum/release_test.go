package quorum

import (
	"strconv"
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// The answer of a release is lost, so it is sent again: the node closes the token once,
// above all that a late renewal of the term can name, and what came after is left alone.
func TestReleaseIsTheSameTwice(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		token := a.wins(1)
		raised := token + 5 // by claims that others have lost
		_ = p.redis[0].Set(p.keys.Fence, strconv.FormatUint(raised, 10))
		if tally := a.renew(testLease, token, protocol.Heir{}, fit); !tally.Majority(protocol.Renewed) {
			t.Fatalf("%+v", tally.Answers)
		}
		if err := protocol.ReleaseScript.Load(t.Context(), p.own[0]).Err(); err != nil { // or only the hash gets there
			t.Fatal(err)
		}
		r := a.Releasing(token, protocol.Heir{}, nil)
		a.lines[0].answersLost.Store(true)
		if tally := r.Try(testLease); tally.Count(protocol.Unknown) != 1 || r.Definite() || r.Left() != 1 {
			t.Fatalf("%+v, definite %v", tally.Answers, r.Definite())
		}
		closed := p.get(0, p.keys.Fence)
		a.lines[0].answersLost.Store(false)
		if tally := r.Try(testLease); tally.Count(protocol.NoLock) != 1 || !r.Definite() || r.Left() != 0 {
			t.Errorf("%+v, definite %v", tally.Answers, r.Definite())
		}
		if now := p.get(0, p.keys.Fence); now != closed || p.locks() != 0 {
			t.Errorf("the counter is %s, was %s; %d locks", now, closed, p.locks())
		}
		renewal := protocol.Request{
			Value: a.lock.String(), Incarnation: a.cfg.Incarnation, Seq: a.seq, Token: token, Shown: raised, Identity: protocol.NewIdentity(),
		}
		if got := p.run(0, protocol.RenewScript, renewal); got.Status != protocol.NoLock || p.locks() != 0 {
			t.Errorf("a late renewal: %+v, %d locks", got, p.locks())
		}

		late := func() protocol.Answer {
			return p.run(0, protocol.ReleaseScript, protocol.Request{
				Value: r.value, Incarnation: a.cfg.Incarnation, Seq: r.seq, Token: token, Closed: max(token, r.counters[0]) + 1,
			})
		}
		other := b.wins(1)
		if got := late(); got.Status != protocol.Taken || p.locks() != 1 {
			t.Errorf("under another's term: %+v, %d locks", got, p.locks())
		}
		b.Releasing(other, protocol.Heir{}, nil).Try(testLease)
		a.wins(1)
		if got := late(); got.Status != protocol.Taken || p.locks() != 1 {
			t.Errorf("under the next term of the same incarnation: %+v, %d locks", got, p.locks())
		}
	})
}

// Another process releases the term of one that died: on a node that does not hold its lock it changes
// nothing, be it free (perhaps the wrong node), another's, or a later term's of the same incarnation.
func TestReleaseForAnotherProcess(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		token := a.wins(1)
		attempt := a.seq
		release := func() Tally {
			return NewVoterOf(b.nodes, a.cfg, attempt, token).Releasing(token, protocol.Heir{}, nil).Try(testLease)
		}
		keys := func() string { return p.redis[0].Dump() }
		if tally := release(); tally.Count(protocol.Released) != 1 || p.locks() != 0 {
			t.Fatalf("%+v, %d locks", tally.Answers, p.locks())
		}
		if got := p.lateRenewal(0, a, token); got.Status != protocol.NoLock || p.locks() != 0 {
			t.Errorf("a late renewal: %+v, %d locks", got, p.locks())
		}
		unchanged := func(what string, want protocol.Status) {
			t.Helper()
			before := keys()
			if tally := release(); tally.Count(want) != 1 || keys() != before {
				t.Errorf("%s: %+v; the node had\n%s\nand now\n%s", what, tally.Answers, before, keys())
			}
		}
		unchanged("a lock that is free", protocol.NoLock)
		other := b.wins(1)
		unchanged("a lock of another", protocol.Taken)
		b.Releasing(other, protocol.Heir{}, nil).Try(testLease)
		a.wins(1)
		unchanged("a later term of the same incarnation", protocol.Taken)
		p.redis[0].FlushAll()
		unchanged("a node that knows nothing of the election", protocol.NoLock)
	})
}

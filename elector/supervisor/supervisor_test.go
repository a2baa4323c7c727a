package supervisor_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/supervisor"
)

// crashed is the term of a leader that is cut off as if it was dead, as it reported it.
func crashed(t *testing.T, c *testcluster.Cluster) supervised.Term {
	t.Helper()
	a := c.Start("a")
	term := a.Elected(time.Second)
	c.Each(testredis.Cut, "a")
	value, err := c.Nodes[0].Server().Get(testcluster.LockKey)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := protocol.ParseLockValue(value)
	if err != nil {
		t.Fatalf("the lock is %q: %v", value, err)
	}
	return supervised.Term{
		Prefix: "mandate", Election: "orders", Candidate: "a", Incarnation: lock.Incarnation, Attempt: lock.Seq, Token: term.Token(),
		Nodes: len(c.Nodes), Lease: testcluster.Lease, CallTimeout: testcluster.Lease / 10,
	}
}

// reported are the terms that these lines make.
func reported(t *testing.T, messages ...supervised.Message) *supervisor.Terms {
	t.Helper()
	var lines strings.Builder
	for _, m := range messages {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(b, '\n'))
	}
	ts := &supervisor.Terms{}
	if err := ts.Follow(strings.NewReader(lines.String())); err != nil {
		t.Fatal(err)
	}
	return ts
}

// Another candidate leads as soon as the term is released, and the history has why.
func TestCrashedTermIsReleased(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		term := crashed(t, c)
		b := c.Start("b")
		time.Sleep(testcluster.Lease / 10)
		q := c.Quorum("supervisor")
		ts := reported(t, supervised.Message{Elected: &term})
		if n, err := ts.Release(context.Background(), q, "killed"); n != 1 || err != nil || !ts.Empty() {
			t.Errorf("released %d, %v; left %d", n, err, ts.Len())
		}
		if got := b.Elected(testcluster.Lease / 20); got.Token() <= term.Token {
			t.Errorf("the token %d after %d", got.Token(), term.Token)
		}
		time.Sleep(10 * time.Millisecond)
		terms, err := testcluster.ElectionOf(q, "orders").History(context.Background(), 5)
		if err != nil || len(terms) != 2 || terms[1].Reason != elector.ReasonCrashed || terms[1].Detail != "killed" {
			t.Errorf("history %+v, %v", terms, err)
		}
	})
}

// The release is bound to the term: what another process holds, or a later term of the same one, it leaves
// as it is. A supervisor that knows another number of nodes can't know what a majority is.
func TestReleaseIsBoundToTheTerm(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		term := crashed(t, c)
		dumps := func() (all string) {
			for _, n := range c.Nodes {
				all += n.Server().Dump()
			}
			return all
		}
		q := c.Quorum("supervisor")
		for what, change := range map[string]func(*supervised.Term){
			"another process":           func(s *supervised.Term) { s.Incarnation = "x" + s.Incarnation[1:] },
			"an earlier attempt":        func(s *supervised.Term) { s.Attempt-- },
			"another election":          func(s *supervised.Term) { s.Election = "other" },
			"another namespace":         func(s *supervised.Term) { s.Prefix = "other" },
			"another number of nodes":   func(s *supervised.Term) { s.Nodes++ },
			"no nodes at all":           func(s *supervised.Term) { s.Nodes = 0 },
			"what was released already": func(s *supervised.Term) { s.Attempt = 0 },
		} {
			s, before := term, dumps()
			change(&s)
			n, err := reported(t, supervised.Message{Elected: &s}).Release(context.Background(), q, "")
			if n != 0 || (err != nil) != (s.Nodes != term.Nodes) || dumps() != before {
				t.Errorf("%s: released %d, %v; the nodes had\n%s\nand now\n%s", what, n, err, before, dumps())
			}
		}
		if n, err := (&supervisor.Terms{}).Release(context.Background(), q, ""); n != 0 || err != nil {
			t.Errorf("nothing to release: %d, %v", n, err)
		}
		if _, err := reported(t).Release(context.Background(), nil, ""); err == nil {
			t.Error("no error without a quorum")
		}
	})
}

// While Redis is away it is tried again, until the lease has passed: then there is nothing to release. A signal ends the
// retries, and never the one attempt: a service manager sends it to all processes of a service whose main process was
// killed.
func TestReleaseWhileRedisIsAway(t *testing.T) {
	over, end := context.WithCancel(context.Background())
	end()
	const lease, call = testcluster.Lease, testcluster.Lease / 10
	for name, c := range map[string]struct {
		ctx         context.Context
		away        time.Duration
		n           int
		least, most time.Duration // until Release has returned
		err         error         // with which it has given up; nil: any
	}{
		"away for long":       {context.Background(), time.Hour, 0, lease / 2, lease + 3*call, nil},
		"away for a while":    {context.Background(), lease / 4, 1, lease / 4, lease, nil},
		"there, and a signal": {over, 0, 1, 0, call, nil},
		"away, and a signal":  {over, time.Hour, 0, 0, 3 * call, context.Canceled},
	} {
		testcluster.Bubble(t, 3, func(t *testing.T, cl *testcluster.Cluster) {
			term := crashed(t, cl)
			q := cl.Quorum("supervisor")
			if c.away > 0 {
				cl.Each(testredis.Cut, "supervisor")
				defer time.AfterFunc(c.away, cl.Heal).Stop()
			}
			began := time.Now()
			n, err := reported(t, supervised.Message{Elected: &term}).Release(c.ctx, q, "")
			took := time.Since(began)
			if n != c.n || (err == nil) != (n == 1) || c.err != nil && !errors.Is(err, c.err) || took < c.least || took > c.most {
				t.Errorf("%s: after %v %d, %v", name, took, n, err)
			}
		})
	}
}

// What is there to release is what was reported last.
func TestFollow(t *testing.T) {
	first := supervised.Term{Prefix: "p", Election: "e", Incarnation: "i", Attempt: 1, Token: 5, Lease: time.Second}
	second := first
	second.Attempt, second.Token, second.Lease = 2, 6, 3*time.Second
	other := first
	other.Election, other.Lease = "f", 2*time.Second
	member := supervised.Member{Prefix: "p", Group: "g", Incarnation: "i"}
	for name, c := range map[string]struct {
		lines []supervised.Message
		terms int
		empty bool
		lease time.Duration
	}{
		"nothing":                      {nil, 0, true, 0},
		"a term":                       {[]supervised.Message{{Elected: &first}}, 1, false, time.Second},
		"two elections":                {[]supervised.Message{{Elected: &first}, {Elected: &other}}, 2, false, 2 * time.Second},
		"its release":                  {[]supervised.Message{{Elected: &first}, {Released: &first}}, 0, true, 0},
		"the next term":                {[]supervised.Message{{Elected: &first}, {Elected: &second}}, 1, false, 3 * time.Second},
		"a release that comes late":    {[]supervised.Message{{Elected: &first}, {Elected: &second}, {Released: &first}}, 1, false, 3 * time.Second},
		"a release of what is unknown": {[]supervised.Message{{Released: &first}}, 0, true, 0},
		"a member":                     {[]supervised.Message{{Joined: &member}}, 0, false, 0},
		"a member that left":           {[]supervised.Message{{Joined: &member}, {Left: &member}}, 0, true, 0},
		"no message":                   {[]supervised.Message{{}}, 0, true, 0},
	} {
		ts := reported(t, c.lines...)
		if ts.Len() != c.terms || ts.Empty() != c.empty || ts.MaxLease() != c.lease {
			t.Errorf("%s: %d terms, empty %v, %v; want %d, %v, %v", name, ts.Len(), ts.Empty(), ts.MaxLease(), c.terms, c.empty, c.lease)
		}
	}
}

// What the process has promised to others holds after its death: the term is released when the longest promise has
// lapsed, also when a signal would end the retries. A promise about another term is none of its.
func TestPromiseOutlivesTheProcess(t *testing.T) {
	over, end := context.WithCancel(context.Background())
	end()
	type promises []func(*supervised.Promise)
	long := func(*supervised.Promise) {}
	short := func(p *supervised.Promise) { p.For /= 10 }
	other := func(p *supervised.Promise) { p.Prefix = "other" }
	for name, c := range map[string]struct {
		ctx      context.Context
		promises promises
		waits    time.Duration
		n        int
	}{
		"promised":                       {context.Background(), promises{long}, testcluster.Lease / 4, 1},
		"promised, and a signal":         {over, promises{long}, 0, 0},
		"a shorter one later":            {context.Background(), promises{long, short}, testcluster.Lease / 4, 1},
		"a longer one later":             {context.Background(), promises{short, long}, testcluster.Lease / 4, 1},
		"a longer one of another prefix": {context.Background(), promises{short, other}, testcluster.Lease / 40, 1},
		"another prefix":                 {context.Background(), promises{other}, 0, 1},
		"another term":                   {context.Background(), promises{func(p *supervised.Promise) { p.Token-- }}, 0, 1},
		"another election":               {context.Background(), promises{func(p *supervised.Promise) { p.Election = "other" }}, 0, 1},
	} {
		testcluster.Bubble(t, 3, func(t *testing.T, cl *testcluster.Cluster) {
			term := crashed(t, cl)
			messages := []supervised.Message{{Elected: &term}}
			for _, promise := range c.promises {
				p := supervised.Promise{Prefix: term.Prefix, Election: term.Election, Token: term.Token, For: testcluster.Lease / 4}
				promise(&p)
				messages = append(messages, supervised.Message{Promised: &p})
			}
			ts := reported(t, messages...)
			began := time.Now()
			n, err := ts.Release(c.ctx, cl.Quorum("supervisor"), "")
			if took := time.Since(began); n != c.n || (err == nil) != (c.n == 1) || took < c.waits || took > c.waits+testcluster.Lease/50 {
				t.Errorf("%s: released %d after %v, want %d after %v: %v", name, n, took, c.n, c.waits, err)
			}
		})
	}
}

package elector_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// restricted is a Redis that refuses commands to every user, and what is missing then.
type restricted struct {
	denied    []string
	noMessage bool // publish and subscribe: nobody is notified, no request reaches a candidate
	noHistory bool // XADD
}

// atOnce is what a pair of candidates takes that loses no time: a round trip takes 0.2 ms,
// claims are spaced by 1 ms, a report of an end is waited for 40 ms.
const atOnce = 100 * time.Millisecond

// release is when the next one leads at the latest, after the lock was released.
func (r restricted) release() time.Duration {
	if r.noMessage {
		return shortLease + atOnce // by the time that the last refused claim reported
	}
	return atOnce
}

// The table of times at the end of "Rights" in docs/redis.md: each row, with each refusal that
// makes a difference, and with all of them. TestRealACLLessIsNotEnough shows that a real server refuses in this way.
func TestRestrictedRedis(t *testing.T) {
	messages := []string{"publish", "subscribe", "unsubscribe", "ping"}
	const looks, talk, past = "INFO and CONFIG", "publish and subscribe", "XADD"
	refusals := map[string]restricted{
		looks: {denied: []string{"info", "config|get"}},
		talk:  {denied: messages, noMessage: true},
		past:  {denied: []string{"xadd"}, noHistory: true},
		"all of them": {
			denied:    append([]string{"info", "config|get", "pubsub|numsub", "xadd"}, messages...),
			noMessage: true, noHistory: true,
		},
	}
	for scenario, of := range map[string]struct {
		nodes int
		play  func(*testing.T, *cluster, restricted)
		alone []string // the refusals that make a difference; all of them together are always played
	}{
		"first election":      {3, restrictedFirst, nil},
		"shutdown":            {3, restrictedShutdown, []string{talk, past}},
		"killed":              {3, restrictedKilled, nil},
		"probe fails":         {3, restrictedProbe, []string{talk}},
		"stalled work":        {1, restrictedStalled, nil},
		"own resignation":     {1, restrictedOwnResign, nil},
		"operator's resign":   {3, restrictedResign, []string{talk, past}},
		"transfer":            {3, restrictedTransfer, []string{talk}},
		"pause and resume":    {3, restrictedPause, []string{talk}},
		"one node of three":   {3, restrictedNodeDown, nil},
		"the node, for short": {1, restrictedShortRestart, nil},
		"the node, for long":  {1, restrictedLongRestart, nil},
		"one loses its data":  {1, restrictedLoss, nil},
		"all lose their data": {3, restrictedLoss, nil},
		"observer":            {3, restrictedObserver, []string{talk}},
		"reports":             {3, restrictedReports, []string{looks, talk, past}},
	} {
		for _, what := range append(of.alone, "all of them") {
			r := refusals[what]
			t.Run(scenario+"/"+what, func(t *testing.T) {
				bubble(t, of.nodes, func(t *testing.T, c *cluster) {
					for _, nd := range c.Nodes {
						nd.Deny(r.denied...)
					}
					of.play(t, c, r)
				})
			})
		}
	}
}

// pair starts a, which leads, and b, which has followed for longer than a lease.
func pair(t *testing.T, c *cluster, change ...func(*elector.Config)) (a, b *candidate, term *elector.Term) {
	t.Helper()
	a = c.Start("a", change...)
	term = a.Elected(atOnce)
	b = c.Start("b", change...)
	b.Quiet(shortLease + shortLease/3)
	return a, b, term
}

func restrictedFirst(t *testing.T, c *cluster, _ restricted) {
	a, b, term := pair(t, c)
	b.Quiet(5 * shortLease)
	if !term.Valid() || a.Check() != nil {
		t.Errorf("%v, %v", term.Err(), a.Check())
	}
}

func restrictedShutdown(t *testing.T, c *cluster, r restricted) {
	a, b, _ := pair(t, c)
	a.Shutdown()
	b.Elected(r.release())
	time.Sleep(atOnce)
	for _, x := range []*candidate{a, b} {
		if logged := x.Log.Lines("cannot record history"); (len(logged) == 1) != r.noHistory || r.noHistory && !strings.Contains(logged[0], " +xadd ") {
			t.Errorf("%s logged %q", x.ID(), logged)
		}
		if logged := x.Log.Lines("needs +subscribe"); (len(logged) == 1) != r.noMessage || len(logged) > 1 {
			t.Errorf("%s logged %q", x.ID(), logged)
		}
	}
}

func restrictedKilled(t *testing.T, c *cluster, _ restricted) {
	a, b, _ := pair(t, c)
	crash(c, a)
	b.Elected(shortLease + atOnce)
}

func restrictedProbe(t *testing.T, c *cluster, r restricted) {
	w := &fakeProbe{}
	_, b, term := pair(t, c, func(cfg *elector.Config) {
		if cfg.ID == "a" {
			cfg.Probe = w
		}
	})
	w.set(errors.New("the queue is not reachable"))
	wantReason(t, term, 3*time.Second+tick, elector.ReasonUnhealthy) // 3 failures, one a second
	b.Elected(r.release())
}

func restrictedStalled(t *testing.T, c *cluster, r restricted) {
	var aliveA, aliveB atomic.Bool
	aliveA.Store(true)
	aliveB.Store(true)
	const bound = 2 * time.Second
	term := beating(c, t, "a", &aliveA, bound).Elected(atOnce)
	b := beating(c, t, "b", &aliveB, bound)
	b.Quiet(2 * shortLease)
	aliveA.Store(false)
	wantReason(t, term, bound+10*time.Millisecond, elector.ReasonUnhealthy)
	b.Elected(r.release())
}

func restrictedOwnResign(t *testing.T, c *cluster, r restricted) {
	a, b, term := pair(t, c)
	if err := a.Resign(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	wantReason(t, term, 0, elector.ReasonResigned)
	b.Elected(r.release())
}

// unsent wants an operator's request to be refused at once, because nobody could receive
// it or its answer, and to change nothing.
func unsent(t *testing.T, b *candidate, term *elector.Term, err error, took time.Duration) {
	t.Helper()
	if !errors.Is(err, elector.ErrDenied) || took > atOnce {
		t.Errorf("after %v: %v", took, err)
	}
	b.Quiet(2 * shortLease)
	if !term.Valid() {
		t.Errorf("the term ended: %v", term.Err())
	}
}

func restrictedResign(t *testing.T, c *cluster, r restricted) {
	_, b, term := pair(t, c)
	began := time.Now()
	h, err := electionOf(c.Quorum("operator"), "orders").StepDown(within(t, time.Minute), "maintenance")
	if r.noMessage {
		unsent(t, b, term, err, time.Since(began))
		return
	}
	if err != nil || h.To.Candidate != "b" || time.Since(began) > 2*atOnce {
		t.Errorf("after %v: %+v, %v", time.Since(began), h, err)
	}
	wantReason(t, term, 0, elector.ReasonResigned)
}

func restrictedTransfer(t *testing.T, c *cluster, r restricted) {
	_, b, term := pair(t, c)
	began := time.Now()
	h, err := electionOf(c.Quorum("operator"), "orders").Transfer(within(t, time.Minute), "b")
	if r.noMessage {
		unsent(t, b, term, err, time.Since(began))
		return
	}
	if err != nil || h.To.Candidate != "b" || time.Since(began) > 3*atOnce {
		t.Errorf("after %v: %+v, %v", time.Since(began), h, err)
	}
	wantReason(t, term, 0, elector.ReasonHandover)
}

func restrictedPause(t *testing.T, c *cluster, r restricted) {
	a, b, term := pair(t, c)
	el := electionOf(c.Quorum("operator"), "orders")
	if err := el.Pause(t.Context(), 0, "migration"); err != nil {
		t.Fatal(err)
	}
	b.Quiet(2 * shortLease)
	if st, err := el.Status(t.Context()); err != nil || !st.Paused || !term.Valid() {
		t.Errorf("%+v, %v, %v", st, err, term.Err())
	}
	a.Shutdown()
	b.Quiet(3 * shortLease)
	if err := el.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Elected(r.release())
}

// A node that comes back is taken at the next renewal, or at the one after that when the
// follower's claim came first and raised its counter.
func restrictedNodeDown(t *testing.T, c *cluster, _ restricted) {
	_, b, term := pair(t, c)
	c.Nodes[0].Set(down)
	b.Quiet(3 * shortLease)
	c.Heal()
	b.Quiet(shortLease/2 + atOnce)
	if lock, _ := c.Nodes[0].Server().Get(lockKey); !term.Valid() || !strings.HasPrefix(lock, "a/") {
		t.Errorf("the lock of the node that was down: %q; %v", lock, term.Err())
	}
}

func restrictedShortRestart(t *testing.T, c *cluster, _ restricted) {
	_, b, term := pair(t, c)
	c.Each(down)
	time.Sleep(shortLease * 4 / 10)
	c.Heal()
	b.Quiet(3 * shortLease)
	if !term.Valid() {
		t.Errorf("the term ended: %v", term.Err())
	}
}

func restrictedLongRestart(t *testing.T, c *cluster, _ restricted) {
	a, b, term := pair(t, c)
	c.Each(down)
	wantReason(t, term, shortLease, elector.ReasonExpired)
	time.Sleep(2 * shortLease)
	c.Heal()
	if _, next := first(t, shortLease/4+atOnce, a, b); next.Token() <= term.Token() {
		t.Errorf("token %d after %d", next.Token(), term.Token())
	}
}

// The leader's next renewal notices it (or the repetition of that, a sixteenth of a lease
// later, when it went into a broken connection), and from then on at the latest the nodes
// abstain for a lease.
func restrictedLoss(t *testing.T, c *cluster, _ restricted) {
	a, b, term := pair(t, c)
	defer never2(t, a, b)()
	for _, nd := range c.Nodes {
		nd.RestartEmpty()
	}
	const notices = shortLease/4 + shortLease/16 + atOnce
	wantReason(t, term, notices, elector.ReasonDataLost)
	if _, next := first(t, shortLease+atOnce, a, b); next.Token() <= term.Token() {
		t.Errorf("token %d after %d", next.Token(), term.Token())
	}
}

func restrictedObserver(t *testing.T, c *cluster, r restricted) {
	a, b, one := pair(t, c)
	el := electionOf(c.Quorum("reader"), "orders")
	ctx, stop := context.WithCancel(t.Context())
	events := observe(ctx, el)
	defer func() {
		stop()
		for range events { // closed when the observer has ended
		}
	}()
	want(t, events, atOnce, elector.EventElected, "a", one.Token())
	time.Sleep(shortLease)
	a.Shutdown()
	two := b.Elected(r.release())
	if l, err := el.Leader(t.Context()); err != nil || l.Candidate != "b" || l.Token != two.Token() {
		t.Errorf("leader: %+v, %v", l, err)
	}
	late := atOnce
	if r.noMessage {
		late = shortLease + atOnce // it queries Redis once a lease
	}
	reason := elector.Reason("")
	for limit := time.Now().Add(late); ; {
		ev := next(t, events, time.Until(limit))
		if ev.Kind == elector.EventReleased {
			reason = ev.Reason
		}
		if ev.Kind == elector.EventElected {
			if ev.Candidate != "b" || ev.Token != two.Token() {
				t.Errorf("%+v", ev)
			}
			break
		}
	}
	if r.noMessage == (reason == elector.ReasonShutdown) {
		t.Errorf("reported with reason %q", reason)
	}
}

func restrictedReports(t *testing.T, c *cluster, r restricted) {
	a, b, one := pair(t, c)
	a.Shutdown()
	two := b.Elected(r.release())
	c.Start("c").Quiet(shortLease / 2)
	q := c.Quorum("reader")
	el := electionOf(q, "orders")
	st, err := el.Status(t.Context())
	if err != nil || st.Leader == nil || st.Leader.Token != two.Token() || st.Leader.Since.IsZero() {
		t.Errorf("status: %+v, %v", st, err)
	}
	terms, err := el.History(t.Context(), 5)
	switch {
	case err != nil || r.noHistory && len(terms) > 0 || !r.noHistory && len(terms) != 2:
		t.Errorf("history: %+v, %v", terms, err)
	case !r.noHistory && (terms[0].Token != two.Token() || terms[1].Token != one.Token() || terms[1].Reason != elector.ReasonShutdown):
		t.Errorf("history: %+v", terms)
	}
	began := time.Now()
	all, err := el.Candidates(t.Context())
	if d := time.Since(began); r.noMessage && (len(all) > 0 || !errors.Is(err, elector.ErrDenied)) ||
		!r.noMessage && (len(all) != 2 || err != nil) || d > atOnce {
		t.Errorf("roll call, after %v: %+v, %v", d, all, err)
	}
	found, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders"})
	for _, f := range found {
		if err != nil || f.Level == doctor.LevelFail {
			t.Errorf("doctor: %+v, %v", f, err)
		}
	}
}

package elector_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// atOnce is what a pair of candidates takes that loses no time: a round trip takes 0.2 ms,
// claims are spaced by 1 ms, a report of an end is waited for 40 ms.
const atOnce = 100 * time.Millisecond

// restricted is two candidates on a Redis that refuses commands to every user: a leads, and b has followed for longer
// than a lease.
type restricted struct {
	*cluster
	messages bool // publish and subscribe are granted
	a, b     *candidate
	term     *elector.Term // of a
	probe    *fakeProbe    // of a
	election *elector.Election
}

// The table of times at the end of "Rights" in docs/redis.md, and its two columns. TestRealACLLessIsNotEnough and
// TestRealACLOperatorIsEnough show on a real server what each refusal costs, but not the times.
func TestRestrictedRedis(t *testing.T) {
	denied := []string{"info", "config|get", "pubsub|numsub", "xadd"}
	all := slices.Concat(denied, []string{"publish", "subscribe", "unsubscribe", "ping"})
	next := func(end func(*testing.T, *restricted), within time.Duration, reason elector.Reason) func(*testing.T, *restricted) {
		return func(t *testing.T, r *restricted) {
			end(t, r)
			wantReason(t, r.term, within, reason)
			r.b.Elected(r.release())
		}
	}
	const failures = 3*time.Second + tick // 3 of a probe, one a second
	for name, row := range map[string]struct {
		nodes int
		play  func(*testing.T, *restricted)
	}{
		"shutdown":            {3, next(func(_ *testing.T, r *restricted) { r.a.Shutdown() }, 0, elector.ReasonShutdown)},
		"probe fails":         {3, next(func(_ *testing.T, r *restricted) { r.probe.set(errors.New("no queue")) }, failures, elector.ReasonUnhealthy)},
		"killed":              {3, func(_ *testing.T, r *restricted) { crash(r.cluster, r.a); r.b.Elected(shortLease + atOnce) }},
		"resign":              {3, restrictedRequest("", elector.ReasonResigned)},
		"transfer":            {3, restrictedRequest("b", elector.ReasonHandover)},
		"pause and resume":    {3, restrictedPause},
		"one node of three":   {3, restrictedNodeDown},
		"the node, for short": {1, restrictedShortRestart},
		"the node, for long":  {1, restrictedLongRestart},
		"one loses its data":  {1, restrictedLoss},
		"all lose their data": {3, restrictedLoss},
		"reports":             {3, restrictedReports},
	} {
		for column, denied := range map[string][]string{"messages": denied, "no messages": all} {
			sub(t, name+"/"+column, row.nodes, func(t *testing.T, c *cluster) {
				for _, nd := range c.Nodes {
					nd.Deny(denied...)
				}
				r := &restricted{cluster: c, messages: column == "messages", probe: &fakeProbe{}}
				r.a, r.b, r.term = pair(c, shortLease+shortLease/3, func(cfg *elector.Config) {
					if cfg.ID == "a" {
						cfg.Probe = r.probe
					}
				})
				r.election = electionOf(c.Quorum("operator"), "orders")
				row.play(t, r)
			})
		}
	}
}

// pair starts a, which leads, and b, which has followed for d.
func pair(c *cluster, d time.Duration, change ...func(*elector.Config)) (a, b *candidate, term *elector.Term) {
	c.T.Helper()
	a = c.Start("a", change...)
	term = a.Elected(atOnce)
	b = c.Start("b", change...)
	b.Quiet(d)
	return a, b, term
}

// release is when the next one leads at the latest, after the lock was released.
func (r *restricted) release() time.Duration {
	if r.messages {
		return atOnce
	}
	return shortLease + atOnce // by the time that the last refused claim reported
}

// goesOn wants the term to survive d.
func (r *restricted) goesOn(t *testing.T, d time.Duration) {
	t.Helper()
	r.b.Quiet(d)
	if !r.term.Valid() || r.a.Check() != nil {
		t.Errorf("the term ended: %v; %v", r.term.Err(), r.a.Check())
	}
}

// follows wants one of the two to lead within d.
func (r *restricted) follows(t *testing.T, d time.Duration) {
	t.Helper()
	if _, next := first(t, d, r.a, r.b); next.Token() <= r.term.Token() {
		t.Errorf("token %d after %d", next.Token(), r.term.Token())
	}
}

// restrictedRequest has an operator ask for a step-down, or for a transfer. Where nobody could receive the request or its
// answer it is refused at once, and changes nothing.
func restrictedRequest(heir string, reason elector.Reason) func(*testing.T, *restricted) {
	return func(t *testing.T, r *restricted) {
		began, to, err := time.Now(), elector.Leader{}, error(nil)
		if heir != "" {
			_, to, err = r.election.Transfer(within(t, time.Minute), heir)
		} else {
			_, to, err = r.election.StepDown(within(t, time.Minute), "maintenance")
		}
		if took := time.Since(began); !r.messages {
			if !errors.Is(err, elector.ErrDenied) || took > atOnce {
				t.Errorf("after %v: %v", took, err)
			}
			r.goesOn(t, 2*shortLease)
			return
		} else if err != nil || to.Candidate != "b" || took > 3*atOnce {
			t.Errorf("after %v: %+v, %v", took, to, err)
		}
		wantReason(t, r.term, 0, reason)
	}
}

func restrictedPause(t *testing.T, r *restricted) {
	must(t, r.election.Pause(t.Context(), 0, "migration"))
	r.goesOn(t, 2*shortLease)
	if st, err := r.election.Status(t.Context()); err != nil || !st.Paused {
		t.Errorf("%+v, %v", st, err)
	}
	r.a.Shutdown()
	r.b.Quiet(3 * shortLease)
	must(t, r.election.Resume(t.Context()))
	r.b.Elected(r.release())
}

// A node that comes back is taken at the next renewal, or at the one after that when the
// follower's claim came first and raised its counter.
func restrictedNodeDown(t *testing.T, r *restricted) {
	r.Nodes[0].Set(down)
	r.goesOn(t, 3*shortLease)
	r.Heal()
	r.goesOn(t, shortLease/2+atOnce)
	if lock, _ := r.Nodes[0].Server().Get(lockKey); !strings.HasPrefix(lock, "a/") {
		t.Errorf("the lock of the node that was down: %q", lock)
	}
}

func restrictedShortRestart(t *testing.T, r *restricted) {
	r.Each(down)
	time.Sleep(shortLease * 4 / 10)
	r.Heal()
	r.goesOn(t, 3*shortLease)
}

func restrictedLongRestart(t *testing.T, r *restricted) {
	r.Each(down)
	wantReason(t, r.term, shortLease, elector.ReasonExpired)
	time.Sleep(2 * shortLease)
	r.Heal()
	r.follows(t, shortLease/4+atOnce)
}

// The leader's next renewal notices it (or the repetition of that, a sixteenth of a lease
// later, when it went into a broken connection), and from then on at the latest the nodes
// abstain for a lease.
func restrictedLoss(t *testing.T, r *restricted) {
	defer never2(t, r.a, r.b)()
	for _, nd := range r.Nodes {
		nd.RestartEmpty()
	}
	wantReason(t, r.term, shortLease/4+shortLease/16+atOnce, elector.ReasonDataLost)
	r.follows(t, shortLease+atOnce)
}

// An observer reports the next leader, without messages a lease later and without the reason. Each candidate logs once
// what is missing, and doctor does not call it a failure.
func restrictedReports(t *testing.T, r *restricted) {
	events := watch(t, r.election)
	want(t, events, atOnce, elector.EventElected, "a", r.term.Token())
	time.Sleep(shortLease)
	r.a.Shutdown()
	two := r.b.Elected(r.release())
	late, reason := atOnce, elector.ReasonShutdown
	if !r.messages {
		late, reason = shortLease+atOnce, "" // it queries Redis once a lease
	}
	var ev, released elector.Event
	for limit := time.Now().Add(late); ev.Kind != elector.EventElected; {
		if ev = next(t, events, time.Until(limit)); ev.Kind == elector.EventReleased {
			released = ev
		}
	}
	if ev.Candidate != "b" || ev.Token != two.Token() || released.Reason != reason {
		t.Errorf("reported: %+v, %+v", released, ev)
	}
	for _, x := range []*candidate{r.a, r.b} {
		if logged := x.Log.Lines("cannot record history"); len(logged) != 1 || !strings.Contains(logged[0], " +xadd ") {
			t.Errorf("%s logged %q", x.ID(), logged)
		}
		if logged := x.Log.Lines("needs +subscribe"); (len(logged) == 0) != r.messages || len(logged) > 1 {
			t.Errorf("%s logged %q", x.ID(), logged)
		}
	}
	if st, err := r.election.Status(t.Context()); err != nil || st.Leader == nil || st.Leader.Token != two.Token() || st.Leader.Since.IsZero() {
		t.Errorf("status: %+v, %v", st, err)
	}
	found, err := doctor.Examine(t.Context(), r.Quorum("reader"), doctor.Config{Election: "orders"})
	for _, f := range found {
		if err != nil || f.Level == doctor.LevelFail {
			t.Errorf("doctor: %+v, %v", f, err)
		}
	}
}

package elector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// A term is believed by the clock alone, read at every call: not by a flag, and not by what
// was right before a suspend. Each of these tests is the one that fails when the code does
// believe that (see proof/internal/mutants).

// lying is a candidate whose clocks the test bends.
func lying(t *testing.T, c *cluster, w *lease.Warp, id string, work elector.Work, change ...func(*elector.Config)) *candidate {
	t.Helper()
	ctx := lease.WithClock(context.Background(), lease.NewClock(w))
	return makeCandidate(t, c.Quorum(id), id, change...).BeginIn(ctx, work)
}

// No timer can fire between waking up and asking: the very first answer is right.
func TestIsLeaderReadsTheClockAtEveryCall(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		w := &lease.Warp{}
		a := lying(t, c, w, "a", nil)
		term := a.Elected(3 * shortLease)
		time.Sleep(shortLease)
		w.Wall.Add(int64(time.Hour)) // the machine slept: the monotonic clock stood still
		w.Boot.Add(int64(time.Hour))
		if term.Valid() || a.IsLeader() || a.Term() != nil {
			t.Error("leads after an hour's sleep")
		}
		wantReason(t, term, shortLease/4, elector.ReasonExpired) // on this clock alone no timer is due
		if over := time.Since(term.Deadline()); over < 59*time.Minute {
			t.Errorf("it slept for an hour, and its deadline was %v ago", over)
		}
	})
}

// The rest of the lease counts on the clock that IsLeader reads: a step of the wall
// clock gives nothing away, and takes nothing.
func TestDeadlineIgnoresTheWallClock(t *testing.T) {
	for name, step := range map[string]time.Duration{"an hour back": -time.Hour, "an hour ahead": time.Hour, "none": 0} {
		sub(t, name, 1, func(t *testing.T, c *cluster) {
			w := &lease.Warp{}
			a := lying(t, c, w, "a", nil)
			term := a.Elected(3 * shortLease)
			time.Sleep(shortLease / 8)
			left := term.Left()
			w.Wall.Add(int64(step))
			if got := term.Left(); got != left || !term.Valid() {
				t.Errorf("Left is %v (valid: %v), and was %v before the step", got, term.Valid(), left)
			}
			if got := time.Until(term.Deadline()); got != left {
				t.Errorf("the deadline is in %v, want %v", got, left)
			}
			if at := term.Deadline(); !at.Equal(term.Deadline()) {
				t.Errorf("the deadline moves without a renewal: %v, %v", at, term.Deadline())
			}
			c.Nodes[0].Set(down)
			time.Sleep(left)
			if left, until := term.Left(), time.Until(term.Deadline()); left != 0 || until > 0 || term.Valid() {
				t.Errorf("at the deadline: %v and %v left, valid: %v", left, until, term.Valid())
			}
			end := term.Deadline()
			time.Sleep(shortLease)
			if at := term.Deadline(); !at.Equal(end) {
				t.Errorf("the deadline of an ended term moved by %v", at.Sub(end))
			}
		})
	}
}

// An answer that was long under way gives nothing away.
func TestDeadlineCountsFromTheRequest(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		const oneWay = 500 * time.Millisecond
		c.Each(fault{Delay: oneWay})
		term := c.Start("a").Elected(3 * shortLease)
		if left := term.Deadline().Sub(term.Since()); left > deadlineAfter-2*oneWay {
			t.Errorf("%v left when the term began, %v after its request was sent", left, 2*oneWay)
		}
	})
}

// The work of a term that was ended drains, and the lease is renewed meanwhile:
// nobody else may start, and this candidate leads no more.
func TestEndedTermNeverRevives(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.DrainTimeout = 3 * shortLease })
		a.Begin(stopsAfter(2 * shortLease))
		term := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease)
		go a.Resign(context.Background())
		wantReason(t, term, time.Second, elector.ReasonResigned)
		for end := time.Now().Add(2*shortLease - time.Second); time.Now().Before(end); time.Sleep(shortLease / 20) {
			if term.Valid() || a.IsLeader() || a.Term() != nil {
				t.Fatal("an ended term is valid again")
			}
		}
		if len(b.Terms) > 0 {
			t.Error("another leads while the work drains")
		}
		b.Elected(shortLease)
	})
}

// A renewal waits behind those of other elections to a hung node, and the machine sleeps: the timers that
// bound its wait stand still, and so does the probes' age. When the node wakes up the term has ended, and
// nothing of it may be prolonged or planted there.
func TestNothingIsSentAfterASuspend(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		w := &lease.Warp{}
		c.Seed()
		q := c.Quorum("a")
		others := make([]*candidate, 2)
		for i := range others {
			others[i] = makeCandidate(t, q, fmt.Sprint("other-", i), func(cfg *elector.Config) { cfg.Election = cfg.ID }).Begin(nil)
			others[i].Elected(3 * shortLease)
			time.Sleep(shortLease / 32)
		}
		a := makeCandidate(t, q, "a").BeginIn(lease.WithClock(context.Background(), lease.NewClock(w)), nil)
		term := a.Elected(3 * shortLease)
		time.Sleep(shortLease / 16)
		c.Nodes[2].Set(frozen)
		// Its next renewal meets two calls that hang: those of the others.
		time.Sleep(time.Until(term.Since().Add(shortLease/4 + shortLease/64)))
		w.Wall.Add(int64(time.Hour))
		w.Boot.Add(int64(time.Hour))
		if term.Valid() {
			t.Error("valid after an hour's sleep")
		}
		c.Nodes[2].Took()
		c.Nodes[2].Heal()
		time.Sleep(20 * time.Millisecond)
		for _, sent := range c.Nodes[2].Took() {
			if sent.Script == "renew" && sent.From("a") {
				t.Error("the renewal went out after the sleep")
			}
		}
	})
}

// A term that expired tells which of the causes it was: whoever is on call looks at the nodes,
// at the user's rights, or at the machine.
func TestExpiredNamesTheCause(t *testing.T) {
	const denied = "NOPERM this user has no permissions to run the 'pexpire' command"
	for name, w := range map[string]struct {
		begin func(*cluster)
		want  string
		is    error
	}{
		"two of three are down": {func(c *cluster) {
			c.Nodes[1].Set(down)
			c.Nodes[2].Set(frozen)
		}, "2 of 3 nodes did not answer for 7.4s (127.0.0.1:7002: dial tcp: connection refused, 127.0.0.1:7003: no answer in time)", elector.ErrUnreachable},
		"a right is missing": {func(c *cluster) {
			for _, n := range c.Nodes {
				n.RefuseWith(denied)
			}
		}, "refused for 7.4s by 3 of 3 nodes (127.0.0.1:7001, 127.0.0.1:7002, 127.0.0.1:7003): " + denied, elector.ErrDenied},
		"one is down, one refuses": {func(c *cluster) {
			c.Nodes[0].Set(down)
			c.Nodes[2].RefuseWith("OOM command not allowed when used memory > 'maxmemory'. script: 85e6f050415688760829a79967954e4b2ea9d194, on @user_script:12.")
		}, "1 of 3 nodes did not answer for 7.4s (127.0.0.1:7001: dial tcp: connection refused); " +
			"refused for 7.4s by 1 of 3 nodes (127.0.0.1:7003): OOM command not allowed when used memory > 'maxmemory'.", nil},
	} {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			c.Seed()
			_, term := leading(c, "a")
			time.Sleep(2 * shortLease)
			w.begin(c)
			ended := wantReason(t, term, shortLease, elector.ReasonExpired)
			if why := ended.Err.Error(); why != w.want && !strings.HasPrefix(why, w.want+" (") {
				t.Error(why)
			}
			for _, kind := range []error{elector.ErrUnreachable, elector.ErrDenied} {
				if want := errors.Is(w.is, kind); errors.Is(ended, kind) != want {
					t.Errorf("is %v: %v", kind, errors.Is(ended, kind))
				}
			}
			for _, n := range c.Nodes {
				n.RefuseWith("")
			}
			c.Heal()
		})
	}
}

// A process that was stopped reports for how long, and not that nodes did not answer; of one
// that was stopped while the nodes were away already they are the cause.
func TestExpiredBySuspension(t *testing.T) {
	for name, w := range map[string]struct {
		away time.Duration                               // how long before it the nodes went away; 0: they did not
		then func(stop context.CancelFunc, a *candidate) // what it meets when it wakes up
		want string
	}{
		"all is well":         {0, nil, "this process was suspended for"},
		"the nodes were away": {5 * time.Second, nil, "did not answer for"},
		"it is stopped":       {0, func(stop context.CancelFunc, _ *candidate) { stop() }, "this process was suspended for"},
		"it shall resign":     {0, func(_ context.CancelFunc, a *candidate) { _ = a.Resign(context.Background()) }, "this process was suspended for"},
	} {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			c.Seed()
			warp := new(lease.Warp)
			ctx, stop := context.WithCancel(lease.WithClock(context.Background(), lease.NewClock(warp)))
			defer stop()
			a := makeCandidate(t, c.Quorum("a"), "a").BeginIn(ctx, nil)
			term := a.Elected(3 * shortLease)
			time.Sleep(2*shortLease + w.away)
			if w.away > 0 {
				c.Each(down)
				time.Sleep(w.away)
			}
			warp.Wall.Add(int64(9 * time.Second)) // a machine that slept
			warp.Boot.Add(int64(9 * time.Second))
			if w.then != nil {
				w.then(stop, a)
			}
			ended := wantReason(t, term, shortLease, elector.ReasonExpired)
			if !strings.HasPrefix(ended.Err.Error(), w.want) && !strings.Contains(ended.Err.Error(), w.want) {
				t.Errorf("%v", ended)
			}
			c.Heal()
		})
	}
}

package elector_test

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
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// Publish and subscribe know no databases. Elections of one name in two databases of a server have different
// locks, and must not move each other's leader, or count each other's candidates.
func TestDatabasesAreApart(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		second := func(name string) *elector.Quorum {
			client := c.Client(name, 0, func(o *redis.Options) { o.DB = 1 })
			defer client.Close() // only its options are needed
			return quorumOf(t, client)
		}
		byPriority := func(priority int) func(*elector.Config) {
			return func(cfg *elector.Config) {
				cfg.Succession, cfg.Priority = elector.SuccessionPriority, priority
			}
		}
		_, term := leading(c, "a", byPriority(1))
		x := testcluster.NewCandidate(t, second("x"), "x", byPriority(1)).Begin(nil)
		y := testcluster.NewCandidate(t, second("y"), "y", byPriority(9)).Begin(nil)
		testcluster.NewCandidate(t, second("z"), "z", func(cfg *elector.Config) { cfg.Election = "staging" }).Begin(nil)
		first(t, 3*shortLease, x, y)
		time.Sleep(5 * shortLease)
		for q, want := range map[*elector.Quorum]string{c.Quorum("operator"): "a of orders", second("operator1"): "y x of orders staging"} {
			roll, err := electionOf(q, "orders").Candidates(t.Context())
			var ids []string
			for _, cand := range roll {
				ids = append(ids, cand.ID)
			}
			names, errNames := q.Elections(t.Context())
			if got := strings.Join(ids, " ") + " of " + strings.Join(names, " "); got != want || err != nil || errNames != nil {
				t.Errorf("%q, want %q (%v, %v)", got, want, err, errNames)
			}
		}
		if _, _, err := electionOf(second("operator2"), "orders").StepDown(within(t, time.Minute), ""); err != nil {
			t.Error(err)
		}
		continues(t, term)
	})
}

// Messages of candidates whose nodes are others do not count, whatever carries them.
func TestCandidatesOfAnotherLockDoNotCount(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		_, term := leading(c, "a", func(cfg *elector.Config) { cfg.Succession = elector.SuccessionPriority })
		el := electionOf(c.Quorum("operator"), "orders")
		for i := range 40 {
			c.Nodes[0].Server().Publish("mandate:{orders}:ask", fmt.Sprintf(`{"v":1,"kind":"card","election":"orders","card":{"id":"x","incarnation":"X1",`+
				`"role":"following","healthy":true,"priority":9,"running_ms":1e6,"healthy_for_ms":%d,"nodes":[{"name":"n","identity":"OTHER1"}]}}`, 1e6+i))
			time.Sleep(shortLease / 4)
		}
		continues(t, term)
		if roll, err := el.Candidates(t.Context()); len(roll) != 1 || err != nil {
			t.Errorf("%+v, %v", roll, err)
		}
	})
}

// A program that meets another protocol says so once, and neither leads beside its lock nor acts on its messages.
func TestOtherProtocol(t *testing.T) {
	for _, n := range []int{1, 3} {
		sub(t, fmt.Sprintf("n=%d", n), n, func(t *testing.T, c *cluster) {
			lock := fmt.Sprintf("x/X1/1 n=%d lease=%d v=2 later=[this] token=7", n, shortLease.Milliseconds())
			srv := c.Nodes[0].Server()
			keep := func() {
				_ = srv.Set(lockKey, lock)
				srv.SetTTL(lockKey, shortLease)
			}
			keep()
			a := c.Start("a")
			for range 20 { // a minority suffices
				a.Quiet(shortLease / 2)
				keep()
				publish(c, "events", "2 released [later]")
				publish(c, "ask", `{"v":2,"kind":["later"]}`)
			}
			for line, want := range map[string]string{"cannot campaign": "x holds the lock with protocol 2, and this program has protocol 1", "ignoring messages": "protocol=2"} {
				if lines := a.Log.Lines(`msg="` + line); len(lines) != 1 || !strings.Contains(lines[0], want) || !strings.Contains(lines[0], "WARN") {
					t.Errorf("logged %q", lines)
				}
			}
			el := electionOf(c.Quorum("operator"), "orders")
			st, err := el.Status(t.Context())
			if err != nil || st.Nodes[0].Foreign != lockKey+" holds the lock of another version" || st.Nodes[0].Holder != "x" || st.Nodes[0].Protocol != 2 || st.Blocked != "" {
				t.Errorf("%+v, %v", st, err)
			}
			led := n == 1
			if l := st.MayLead; (l != nil) != led || led && (l.Candidate != "x" || l.Protocol != 2) {
				t.Errorf("may lead: %+v", l)
			}
			if _, err := el.Leader(t.Context()); errors.Is(err, elector.ErrUnreachable) != led || led && !strings.Contains(err.Error(), "x holds the lock with protocol 2") {
				t.Errorf("the leader: %v", err)
			}
			c.Nodes[n-1].Set(cut, "operator") // it may hold a second lock of that version
			if st, err := el.Status(t.Context()); n > 1 && (err != nil || st.MayLead == nil || st.MayLead.Protocol != 2) {
				t.Errorf("may lead: %+v, %v", st.MayLead, err)
			}
			if got, err := srv.Get(lockKey); got != lock {
				t.Errorf("the lock is %q, %v", got, err)
			}
			srv.Del(lockKey)
			a.Elected(2 * shortLease)
		})
	}
}

// A roll call counts candidates with another protocol, and those of this one answer that of another.
func TestRollCallOfAnotherProtocol(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		c.Start("a").Elected(3 * shortLease)
		other, ctx := c.Client("other", 0), within(t, time.Minute)
		defer other.Close()
		requests, answers := other.Subscribe(ctx, "mandate:{orders}:roll"), other.Subscribe(ctx, "mandate:{orders}:roll:N1")
		defer requests.Close()
		defer answers.Close()
		for _, s := range []*redis.PubSub{requests, answers} {
			must(t, second(s.Receive(ctx)))
		}
		publish(c, "roll", `{"v":2,"kind":"roll-call","election":"orders","nonce":"N1","later":["x"]}`)
		if m, err := answers.ReceiveMessage(ctx); err != nil || !strings.HasPrefix(m.Payload, `{"v":1,"card":{"id":"a",`) {
			t.Errorf("answered %v, %v", m, err)
		}
		must(t, second(requests.ReceiveMessage(ctx))) // its own
		go func() {
			m, err := requests.ReceiveMessage(ctx)
			if err != nil {
				return
			}
			_, nonce, _ := strings.Cut(m.Payload, `"nonce":"`)
			nonce, _, _ = strings.Cut(nonce, `"`)
			other.Publish(ctx, "mandate:{orders}:roll:"+nonce, `{"v":2,"card":["later"]}`)
		}()
		began := time.Now()
		r := doctor.Read(ctx, electionOf(c.Quorum("operator"), "orders"), 1)
		if took := time.Since(began); !slices.Equal(r.Others, []int{2}) || len(r.Candidates) != 1 || took > 100*time.Millisecond {
			t.Errorf("%v, %+v after %v", r.Others, r.Candidates, took)
		}
	})
}

// Candidates whose subscriptions receive nothing any more, without a sign, are reached again after two
// leases, a leader after one; until then a refusal does not claim that the leader hangs.
func TestDeafCandidatesAreReachedAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all, term, op := trio(t, c)
		el := electionOf(op, "orders")
		time.Sleep(5 * shortLease)
		for _, n := range c.Nodes {
			n.Deafen()
		}
		_, _, err := el.StepDown(within(t, time.Minute), "")
		if !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "its subscription does not receive requests") {
			t.Errorf("a deaf leader: %v", err)
		}
		time.Sleep(5 * shortLease / 2)
		began := time.Now()
		_, to, err := el.StepDown(within(t, time.Minute), "")
		if err != nil || term.Valid() || time.Since(began) > 100*time.Millisecond {
			t.Errorf("%+v, %v", to, err)
		}
		if roll, err := el.Candidates(t.Context()); len(roll) != len(all) || err != nil {
			t.Errorf("%d candidates answer, %v", len(roll), err)
		}
	})
}

// The usual failover of a managed Redis: the name moves to the promoted replica, and the old primary lives on as a
// replica of it. The subscriptions there receive what their own processes publish, although nobody is subscribed at
// the new primary, where operators look for candidates.
func TestSubscriptionsFollowAFailoverByName(t *testing.T) {
	for name, failover := range map[string]func(old, to *node){"commands fail for a moment": (*node).FailOver, "all connections stay": (*node).Demote} {
		sub(t, name, 1, func(t *testing.T, c *cluster) {
			all, term, _ := trio(t, c)
			time.Sleep(5 * shortLease)
			to := c.NewNode("127.0.0.1:7009")
			old := c.Nodes[0].Server()
			failover(c.Nodes[0], to)
			all = append(all, c.Start("d")) // that one is subscribed at the new primary
			for range 20 {
				time.Sleep(shortLease / 10)
				lock, _ := to.Server().Get(lockKey)
				_ = old.Set(lockKey, lock) // replicated
				old.SetTTL(lockKey, shortLease)
			}
			continues(t, term)
			const ask = "mandate:{orders}:ask"
			if n := to.Server().PubSubNumSub(ask)[ask]; n != len(all) {
				t.Errorf("%d of %d candidates are subscribed at the new primary", n, len(all))
			}
			el := electionOf(c.Quorum("operator"), "orders")
			if roll, err := el.Candidates(t.Context()); len(roll) != len(all) || err != nil {
				t.Errorf("%d candidates answer, %v", len(roll), err)
			}
			began := time.Now()
			if _, to, err := el.Transfer(within(t, time.Minute), "b"); err != nil || time.Since(began) > 100*time.Millisecond {
				t.Errorf("%+v, %v", to, err)
			}
			all[1].Elected(shortLease)
		})
	}
}

// Two living processes with one id: the roll call and the doctor say so, whichever leads; a handover to "it" is refused.
func TestTwinsAreReported(t *testing.T) {
	for name, first := range map[string]string{"one leads": "a", "both follow": "c"} {
		sub(t, name, 3, func(t *testing.T, c *cluster) {
			lead := c.Start(first)
			lead.Elected(3 * shortLease)
			for range map[string]int{"a": 1, "c": 2}[first] {
				makeCandidate(t, c.Quorum("twin"), "a").Begin(nil)
			}
			time.Sleep(3 * shortLease)
			q := c.Quorum("operator")
			all, err := electionOf(q, "orders").Candidates(t.Context())
			if err != nil || len(all) < 2 {
				t.Fatalf("roll call: %+v, %v", all, err)
			}
			found, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders", Lease: shortLease})
			if err != nil || !slices.ContainsFunc(found, func(f doctor.Finding) bool {
				return f.Check == "ids" && f.Level == doctor.LevelWarn && strings.Contains(f.Found, "2 candidates have the id a")
			}) {
				t.Errorf("doctor says %+v, %v", found, err)
			}
			_, _, err = electionOf(q, "orders").Transfer(t.Context(), "a")
			if !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "2 candidates have the id a") {
				t.Errorf("transfer says %v", err)
			}
		})
	}
}

// A process that was killed and comes back under its fixed id has no twin.
func TestRestartUnderAFixedIDIsNoTwin(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		old, _ := leading(c, "a")
		other := c.Start("b")
		time.Sleep(shortLease)
		crash(c, old)
		again := makeCandidate(t, c.Quorum("restarted"), "a").Begin(nil)
		time.Sleep(3 * shortLease)
		for _, x := range []*candidate{again, other} {
			if lines := x.Log.Lines("WARN"); len(lines) != 0 {
				t.Errorf("%s warns: %q", x.ID(), lines)
			}
		}
	})
}

package elector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// within is a context that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// trio starts candidates a, b and c, of which a leads, and an operator.
func trio(t *testing.T, c *cluster, change ...func(*elector.Config)) (all []*candidate, term *elector.Term, op *elector.Quorum) {
	t.Helper()
	a := c.Start("a", change...)
	term = a.Elected(3 * shortLease)
	all = []*candidate{a, c.Start("b", change...), c.Start("c", change...)}
	time.Sleep(shortLease)
	return all, term, c.Quorum("operator")
}

func TestNoneToResignOrToTakeOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		op := c.Quorum("operator")
		if _, _, err := electionOf(op, "orders").StepDown(within(t, time.Minute), ""); !errors.Is(err, elector.ErrNoLeader) {
			t.Errorf("no leader: %v", err)
		}
		a, term := leading(c, "a")
		from, _, err := electionOf(op, "orders").StepDown(within(t, shortLease/2), "")
		if !errors.Is(err, elector.ErrNoLeader) || from.Token != term.Token() {
			t.Errorf("no successor: %+v, %v", from, err)
		}
		a.Elected(2 * shortLease) // after its cool-down
		c.Each(fault{LoseMessages: true}, "a")
		if _, _, err := electionOf(op, "orders").StepDown(within(t, time.Minute), ""); !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("a leader without a subscription: %v", err)
		}
	})
}

// An answer that is lost, or that the leader has no right to publish, does not make a
// leader that stepped down one that refused to.
func TestStepDownWhoseAnswerIsLost(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, term := leading(c, "a")
		b := c.Start("b")
		time.Sleep(shortLease)
		op := c.Quorum("operator")
		c.Each(fault{LoseMessages: true}, "operator")
		from, to, err := electionOf(op, "orders").StepDown(within(t, time.Minute), "deploy")
		next := b.Elected(time.Second)
		if err != nil || from.Token != term.Token() || to.Token != next.Token() || to.Candidate != "b" {
			t.Errorf("%+v, %+v, %v", from, to, err)
		}
		wantReason(t, term, 0, elector.ReasonResigned)
	})
}

func TestTransferToX(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all, term, op := trio(t, c, func(cfg *elector.Config) { cfg.Cooldown = time.Millisecond })
		for i := range 12 { // chance would not name the same one again and again
			heir := all[(i+1)%3]
			began := time.Now()
			_, to, err := electionOf(op, "orders").Transfer(within(t, time.Minute), heir.ID())
			must(t, err)
			if to.Candidate != heir.ID() || to.Token <= term.Token() || time.Since(began) > 50*time.Millisecond {
				t.Fatalf("transfer %d to %s: %+v", i, heir.ID(), to)
			}
			wantReason(t, term, 0, elector.ReasonHandover)
			term = heir.Elected(time.Second)
			time.Sleep(shortLease)
		}
	})
}

// The heir dies between the promise and the seat: the others wait a quarter of
// the lease and no longer.
func TestTransferToTheDying(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all, term, op := trio(t, c)
		go func() {
			<-term.Done()
			c.Each(cut, "b")
		}()
		began := time.Now()
		_, to, err := electionOf(op, "orders").Transfer(within(t, time.Minute), "b")
		if !errors.Is(err, elector.ErrRefused) || to.Candidate != "c" {
			t.Errorf("%+v, %v", to, err)
		}
		next := all[2].Elected(time.Second)
		if took := next.Since().Sub(began); took > shortLease/4+100*time.Millisecond {
			t.Errorf("elected %v after the request", took)
		}
	})
}

// Anybody can write to the channel; a request that was under way for long, or is
// replayed, must not end a term that it does not mean.
func TestHandOverMeansOneTerm(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a, term := leading(c, "a")
		ask := func(nonce, leader string, token uint64) {
			c.Nodes[0].Server().Publish("mandate:{orders}:ask",
				fmt.Sprintf(`{"v":1,"kind":"hand-over","election":"orders","nonce":"%s","leader":"%s","token":%d}`, nonce, leader, token))
		}
		a1 := a.Incarnation()
		ask("n1", a1, term.Token()-1)
		ask("n2", a1, term.Token()+1)
		ask("n3", a1, 0)
		ask("n4", "", term.Token())
		ask("n5", "B1", term.Token())
		time.Sleep(shortLease)
		continues(t, term)
		ask("n6", a1, term.Token())
		wantReason(t, term, time.Second, elector.ReasonResigned)
	})
}

// A reader of the history must see which operator moved the leadership, and who paused.
func TestOperatorIsRecorded(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, _, op := trio(t, c)
		orders := electionOf(op, "orders").As("ann@bastion")
		if _, _, err := orders.StepDown(within(t, time.Minute), "kernel update"); err != nil {
			t.Fatal(err)
		}
		st, err := orders.Status(t.Context())
		if err != nil || st.Leader == nil {
			t.Fatal(err)
		}
		to := "b"
		if st.Leader.Candidate == to {
			to = "c"
		}
		if _, _, err := orders.Transfer(within(t, time.Minute), to); err != nil {
			t.Fatal(err)
		}
		terms, err := orders.History(t.Context(), 3)
		if err != nil || len(terms) < 3 {
			t.Fatal(terms, err)
		}
		for i, want := range []string{1: "by ann@bastion: transfer to " + to, 2: "by ann@bastion: kernel update"} {
			if !strings.Contains(terms[i].Detail, want) {
				t.Errorf("%q, want %q", terms[i].Detail, want)
			}
		}
		for reason, want := range map[string]string{"": "by ann@bastion", "migration": "by ann@bastion: migration"} {
			must(t, orders.Pause(t.Context(), 0, reason))
			if st, err := orders.Status(t.Context()); err != nil || st.Pause != want {
				t.Errorf("%q, want %q (%v)", st.Pause, want, err)
			}
		}
		if err := orders.Pause(t.Context(), 0, strings.Repeat("r", 490)); err == nil {
			t.Error("a reason that does not fit with the name was accepted")
		}
	})
}

package elector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// While a handover is under way anybody can publish that somebody was elected. How long
// no candidate led is what the history says.
func TestForgedElectedFalsifiesNoGap(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, term, op := trio(t, c)
		forged := func(i int) string {
			return fmt.Sprintf(`{"v":1,"kind":"elected","election":"orders","candidate":"ghost","token":%d,"time":%q}`,
				term.Token()+1+uint64(i), time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano))
		}
		go flood(c, "events", time.Millisecond/2, time.Second, forged)
		h, err := electionOf(op, "orders").StepDown(within(t, time.Minute), "")
		if err != nil {
			t.Fatal(err)
		}
		if h.To.Candidate == "ghost" || h.Gap == 0 || h.Gap > 50*time.Millisecond {
			t.Errorf("%+v", h)
		}
		time.Sleep(time.Second)
	})
}

// The nodes' counters were ahead, and are lost while the leader steps down: the next
// term has a lower token, and is the next term all the same.
func TestHandoverToALowerToken(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		ahead := time.Now().Add(24 * time.Hour).UnixMilli()
		_ = c.Nodes[0].Server().Set(fenceKey, fmt.Sprint(ahead))
		all, term, op := trio(t, c, func(cfg *elector.Config) { cfg.Cooldown = time.Hour })
		if term.Token() <= uint64(ahead) {
			t.Fatalf("token %d", term.Token())
		}
		for _, x := range all[1:] { // they would remember
			x.Shutdown()
		}
		done := make(chan elector.Handover, 1)
		go func() {
			h, err := electionOf(op, "orders").StepDown(within(t, 10*shortLease), "")
			if err != nil {
				t.Error(err)
			}
			done <- h
		}()
		wantReason(t, term, time.Second, elector.ReasonResigned)
		time.Sleep(time.Second)
		c.Nodes[0].RestartEmpty()
		next := c.Start("d").Elected(3 * shortLease)
		if next.Token() >= term.Token() {
			t.Fatalf("token %d after %d", next.Token(), term.Token())
		}
		if h, _, came := testcluster.Await(done, time.Second); !came || h.To.Candidate != "d" || h.To.Token != next.Token() {
			t.Errorf("%v: %+v", came, h)
		}
	})
}

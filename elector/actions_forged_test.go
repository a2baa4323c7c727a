package elector_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// answerAll answers every request on the election's channels, as anyone can who may
// subscribe and publish. It ends with the test.
func answerAll(c *cluster, answers ...string) {
	rdb := c.Client("stranger", 0)
	sub := rdb.Subscribe(c.T.Context(), "mandate:{orders}:ask", "mandate:{orders}:roll")
	if _, err := sub.Receive(c.T.Context()); err != nil {
		c.T.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m := range sub.Channel() {
			var q struct{ Nonce string }
			if json.Unmarshal([]byte(m.Payload), &q) != nil || q.Nonce == "" {
				continue
			}
			for _, a := range answers {
				c.Nodes[0].Server().Publish(m.Channel+":"+q.Nonce, a)
			}
		}
	}()
	c.T.Cleanup(func() {
		sub.Close()
		rdb.Close()
		<-done
	})
}

// Anyone who may subscribe sees a roll call, and can answer it. Answers to other requests,
// of other formats, or given twice stand for no candidate, and stop no operator's tool.
func TestForgedAnswersToARollCall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, term, op := trio(t, c)
		ghost := `{"v":1,"card":{"id":"ghost","incarnation":"g1","role":"following"}}`
		other := `{"v":1,"card":{"id":"other","incarnation":"o1","role":"following","nodes":[{"name":"n","identity":"OTHER1"}]}}`
		answerAll(c, "", "null", "[]", `{"v":1,"refused":"no"}`, `{"v":1,"card":null}`, `{"v":1,"card":{"id":"x"}}`,
			`{"v":2,"card":{"id":"x","incarnation":"x1"}}`, other, ghost, ghost)
		all, err := electionOf(op, "orders").Candidates(t.Context())
		ids := map[string]int{}
		for _, x := range all {
			ids[x.ID]++
		}
		if err != nil || len(all) != 4 || ids["ghost"] != 1 || ids["a"] != 1 || ids["b"] != 1 || ids["c"] != 1 {
			t.Errorf("%v, %v", ids, err)
		}
		if _, err := electionOf(op, "orders").Transfer(within(t, time.Minute), "a"); !errors.Is(err, elector.ErrRefused) {
			t.Errorf("transfer to the leader: %v", err)
		}
		if !term.Valid() {
			t.Error(term.Err())
		}
	})
}

// Regression: a leader that had obeyed was reported as one that refused, because the next
// leader had received the request as well, and answered first that the term is over.
func TestStepDownThatTheNextLeaderAnswersFirst(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		_, term, op := trio(t, c)
		answerAll(c, `{"card":{"id":"b","incarnation":"b1","role":"leading"},"refused":"the term that you mean is over"}`)
		h, err := electionOf(op, "orders").StepDown(within(t, shortLease), "deploy")
		if err != nil || h.From.Token != term.Token() || h.To.Token <= term.Token() {
			t.Errorf("%+v, %v", h, err)
		}
		wantReason(t, term, 0, elector.ReasonResigned)
	})
}

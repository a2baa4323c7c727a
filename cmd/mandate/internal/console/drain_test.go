package console_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/shard"
)

// drained is the answer to a drain: what came of each election, and the last line.
func drained(t *testing.T, answer string) (of map[string]string, last map[string]any) {
	t.Helper()
	of = map[string]string{}
	for line := range strings.Lines(answer) {
		last = nil
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if name, ok := last["election"].(string); ok {
			of[name] = fmt.Sprint(last["result"], last["error"])
		}
	}
	return of, last
}

// All that a candidate leads goes to others, evenly; what it follows stays, and what no other
// one could lead does, too.
func TestDrain(t *testing.T) {
	bubble(t, console.Config{Token: token}, func(t *testing.T, s *server, _ *console.Console) {
		leads := map[string]*elector.Elector{}
		for _, election := range []string{"e1", "e2", "e3", "e4"} {
			a := s.candidate(election, "a")
			s.redis.Lead(a)
			s.candidate(election, "b")
			s.candidate(election, "c")
			leads[election] = a
		}
		alone := s.candidate("alone", "a")
		s.redis.Lead(alone)
		other := s.candidate("other", "b")
		s.redis.Lead(other)
		s.candidate("other", "a")
		electortest.Advance(time.Second)
		code, answer := s.post("drain", `{"id":"a","by":"deploy@ci"}`)
		of, last := drained(t, answer)
		if code != http.StatusOK || len(of) != 5 || last["handed_over"] != 4.0 || last["failed"] != 1.0 || last["result"] != "4 handed over, 1 not" {
			t.Fatalf("%d %s", code, answer)
		}
		for election, a := range leads {
			if a.IsLeader() || !strings.Contains(of[election], " leads, token ") || strings.HasPrefix(of[election], "a ") {
				t.Errorf("%s: %s", election, of[election])
			}
		}
		for _, id := range []string{"b", "c"} {
			if n := strings.Count(answer, `"result":"`+id+" leads"); n != 2 {
				t.Errorf("%s was handed %d of 4 elections", id, n)
			}
		}
		if !alone.IsLeader() || !strings.Contains(of["alone"], "there is no other candidate that could lead") {
			t.Errorf("what no other candidate could lead: %s", of["alone"])
		}
		if !other.IsLeader() {
			t.Error("what it does not lead was handed over, too")
		}
		el, err := s.redis.Quorum("x").Election("e1")
		if err != nil {
			t.Fatal(err)
		}
		if terms, err := el.History(t.Context(), 3); err != nil || len(terms) < 2 || !strings.Contains(terms[1].Detail, "deploy@ci") {
			t.Errorf("who wanted it: %+v, %v", terms, err)
		}
		// A script takes 0 failures for a host that may be stopped.
		for _, misspelt := range []string{`{"id":"nobody"}`, `{"host":"no-such-host","pid":7}`} {
			if _, answer := s.post("drain", misspelt); answer != `{"result":"no such candidate answers: the name is misspelt, or it has ended","handed_over":0,"failed":1}`+"\n" {
				t.Errorf("%s: %s", misspelt, answer)
			}
		}
		consoletest.CandidateOn(t, s.redis.Quorum("idler"), "e1", "idler", func(*elector.Config) {})
		electortest.Advance(time.Second)
		if _, answer := s.post("drain", `{"id":"idler"}`); answer != `{"result":"it leads no election","handed_over":0,"failed":0}`+"\n" {
			t.Errorf("one that leads nothing: %s", answer)
		}
	})
}

// The next leaders are those of the highest priority, and none of the target.
func TestDrainChoosesByPriority(t *testing.T) {
	bubble(t, console.Config{Token: token}, func(t *testing.T, s *server, _ *console.Console) {
		priority := func(n int) func(*elector.Config) { return func(c *elector.Config) { c.Priority = n } }
		a := consoletest.CandidateOn(t, s.redis.Quorum("a"), "e", "a", priority(9))
		s.redis.Lead(a)
		consoletest.CandidateOn(t, s.redis.Quorum("b"), "e", "b", priority(1))
		c := consoletest.CandidateOn(t, s.redis.Quorum("c"), "e", "c", priority(5))
		electortest.Advance(time.Second)
		if code, answer := s.post("drain", `{"id":"a"}`); code != http.StatusOK || !c.IsLeader() {
			t.Errorf("%d %s", code, answer)
		}
		// All of them are on this machine: there is no host to go to.
		var host string
		el, err := s.redis.Quorum("x").Election("e")
		if err != nil {
			t.Fatal(err)
		}
		if all, err := el.Candidates(t.Context()); err != nil || len(all) != 3 {
			t.Fatal(all, err)
		} else {
			host = all[0].Host
		}
		if code, answer := s.post("drain", fmt.Sprintf(`{"host":%q}`, host)); code != http.StatusOK || !strings.Contains(answer, "there is no other candidate") || !c.IsLeader() {
			t.Errorf("%d %s", code, answer)
		}
	})
}

// A leader that hangs is no reason to report that nothing is led.
func TestDrainReportsWhatIsNotKnown(t *testing.T) {
	bubble(t, console.Config{Token: token}, func(t *testing.T, s *server, _ *console.Console) {
		s.redis.Lead(s.candidate("e", "a"))
		s.redis.Lead(s.candidate("f", "c"))
		heal := s.redis.CutOff("a")
		electortest.Advance(time.Second)
		_, answer := s.post("drain", `{"host":"worker-1"}`)
		of, last := drained(t, answer)
		if !strings.Contains(of["e"], "a leads it and does not answer, so its host is not known") || last["failed"] != 1.0 || len(of) != 1 {
			t.Errorf("%s", answer)
		}
		if _, answer := s.post("drain", `{"id":"b"}`); !strings.Contains(answer, "no such candidate") {
			t.Errorf("another id than the one that hangs: %s", answer)
		}
		s.redis.CutOff("console")
		if code, answer := s.post("drain", `{"id":"a"}`); code != http.StatusBadGateway {
			t.Errorf("without Redis: %d %s", code, answer)
		}
		heal()
		electortest.Advance(consoletest.Lease)
	})
}

// A console that was started for a group hands over its shards.
func TestDrainOfANamedGroup(t *testing.T) {
	bubble(t, console.Config{Token: token, Elections: []string{"invoices"}}, func(t *testing.T, s *server, _ *console.Console) {
		for _, id := range []string{"a", "b"} {
			consoletest.Member(t, s.redis, "invoices", id, 4, func(*shard.Config) {})
		}
		electortest.Advance(30 * time.Second)
		_, answer := s.post("drain", `{"id":"a"}`)
		if of, _ := drained(t, answer); of["invoices/0"]+of["invoices/1"]+of["invoices/2"]+of["invoices/3"] == "" {
			t.Errorf("none of the shards: %s", answer)
		}
	})
}

func TestDrainIsRefused(t *testing.T) {
	var log strings.Builder
	q := electortest.Start(t).Quorum("console")
	without := newConsole(t, console.Config{Quorum: q})
	with, err := console.New(console.Config{Quorum: q, Token: token, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	const good = `{"host":"h"}`
	if w := request(without, http.MethodPost, "/api/drain", good, bearer(token)); w.Code != http.StatusForbidden {
		t.Errorf("not enabled: %d", w.Code)
	}
	if w := request(with, http.MethodPost, "/api/drain", good); w.Code != http.StatusUnauthorized {
		t.Errorf("no token: %d", w.Code)
	}
	if w := request(with, http.MethodPost, "/api/drain", good, bearer(token), func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); w.Code != http.StatusForbidden {
		t.Errorf("from another site: %d", w.Code)
	}
	for _, bad := range []string{`{}`, `{"pid":7}`, `{"id":"a","pid":7}`, `{"host":"h","pid":-1}`, `{"host":"h"}{}`} {
		if w := request(with, http.MethodPost, "/api/drain", bad, bearer(token)); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
	if w := request(with, http.MethodPost, "/api/drain", good, bearer(token)); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/elector/electortest"
)

func TestLive(t *testing.T) {
	bubble(t, console.Config{Token: token}, func(t *testing.T, s *server, _ *console.Console) {
		a, b := s.candidate("e", "a"), s.candidate("e", "b")
		s.redis.Lead(a)
		electortest.Advance(time.Second)
		v := s.view()
		electortest.Advance(3 * time.Second)
		if v.get("site", "prefix") != "mandate" || v.get("site", "actions") != true {
			t.Errorf("site: %v", v.get("site"))
		}
		if v.get("status e", "leader", "id") != "a" || v.get("status e", "leader", "address") != "a:80" {
			t.Errorf("status: %v", v.get("status e"))
		}
		if left, _ := v.get("status e", "leader", "left_ms").(float64); left < 5000 || left > 10000 {
			t.Errorf("lease: %v", v.get("status e"))
		}
		roles := map[any]any{}
		for _, c := range v.list("roll e", "candidates") {
			if c["healthy"] == true {
				roles[c["id"]] = c["role"]
			}
		}
		if len(roles) != 2 || roles["a"] != "leading" || roles["b"] != "following" {
			t.Errorf("roll: %v", v.get("roll e"))
		}
		// The change is there in a fraction of a second, and soon its words too.
		if err := a.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		electortest.Advance(300 * time.Millisecond)
		if v.get("status e", "leader", "id") != "b" || !b.IsLeader() {
			t.Errorf("after a hand-over: %v", v.get("status e"))
		}
		electortest.Advance(3 * time.Second)
		terms := v.list("terms e", "terms")
		if len(terms) < 2 || terms[0]["id"] != "b" || terms[0]["current"] != true || terms[1]["id"] != "a" || terms[1]["reason"] != "resigned" {
			t.Errorf("terms: %v", terms)
		}
		// An election that begins later.
		s.redis.Lead(s.candidate("f", "c"))
		electortest.Advance(15 * time.Second)
		if v.get("status f", "leader", "id") != "c" {
			t.Errorf("a new election: %v", v.get("status f"))
		}
	})
}

// A leader that is cut off does not just disappear: it is shown as unresponsive, for
// a while.
func TestUnresponsiveCandidates(t *testing.T) {
	bubble(t, console.Config{}, func(t *testing.T, s *server, _ *console.Console) {
		a := s.candidate("e", "a")
		s.candidate("e", "b")
		s.redis.Lead(a)
		v := s.view()
		electortest.Advance(3 * time.Second)
		heal := s.redis.CutOff("a")
		electortest.Advance(30 * time.Second)
		if v.get("status e", "leader", "id") != "b" {
			t.Errorf("%v", v.get("status e"))
		}
		all := v.list("roll e", "candidates")
		if len(all) != 2 || all[0]["id"] != "b" || all[1]["id"] != "a" || all[1]["unresponsive_ms"] == nil {
			t.Errorf("cut off: %v", all)
		}
		electortest.Advance(time.Minute)
		if all := v.list("roll e", "candidates"); len(all) != 1 {
			t.Errorf("a minute later: %v", all)
		}
		heal()
		electortest.Advance(30 * time.Second)
		if all := v.list("roll e", "candidates"); len(all) != 2 || all[1]["unresponsive_ms"] != nil {
			t.Errorf("back again: %v", all)
		}
	})
}

// A Redis that answers no more is named once, and what it answered before stands with its
// time, never as if it were new.
func TestRedisIsGone(t *testing.T) {
	bubble(t, console.Config{}, func(t *testing.T, s *server, _ *console.Console) {
		s.redis.Lead(s.candidate("e", "a"))
		v := s.view()
		electortest.Advance(3 * time.Second)
		heal := s.redis.CutOff("console")
		electortest.Advance(15 * time.Second)
		if v.get("status e", "as_of") == nil || v.get("status e", "error") == nil || v.get("row e", "as_of") == nil || v.get("redis", "known") != false || v.get("redis", "as_of") == nil {
			t.Errorf("%v, %v", v.get("status e"), v.get("site"))
		}
		heal()
		electortest.Advance(15 * time.Second)
		if v.get("status e", "leader", "id") != "a" || v.get("status e", "as_of") != nil || v.get("row e", "as_of") != nil || v.get("redis", "known") != true {
			t.Errorf("%v, %v", v.get("status e"), v.get("site"))
		}
	})
}

// commands is how many commands Redis has been sent.
func (s *server) commands() int {
	s.t.Helper()
	n := 0
	info, err := s.redis.Client("counter").Info(context.Background(), "stats").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		_, _ = fmt.Sscanf(line, "total_commands_processed:%d", &n)
	}
	return n
}

func TestViewersAreBounded(t *testing.T) {
	bubble(t, console.Config{MaxViewers: 4}, func(t *testing.T, s *server, c *console.Console) {
		one := s.view()
		s.view()
		electortest.Advance(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if w := request(c, http.MethodGet, "/api/live", "", func(r *http.Request) { *r = *r.WithContext(ctx) }); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("a third viewer: %d", w.Code)
		}
		one.close()
		electortest.Advance(15 * time.Second) // until the next beat finds out
		three := s.view()
		electortest.Advance(time.Second)
		if three.get("site", "prefix") != "mandate" {
			t.Errorf("after one has left: %v", three.get("site"))
		}
	})
}

// A viewer that stands still is cut off; one that reads stays, also in quiet times.
func TestSlowViewers(t *testing.T) {
	bubble(t, console.Config{}, func(t *testing.T, s *server, _ *console.Console) {
		s.redis.Lead(s.candidate("e", "a"))
		still, steady := s.dial(fmt.Sprintf(getLive, "")), s.view()
		electortest.Advance(5 * time.Minute)
		if _, err := io.Copy(io.Discard, still); err != nil { // not a time-out of ours: the server has closed it
			t.Errorf("a viewer that does not read is still there: %v", err)
		}
		if id := steady.get("status e", "leader", "id"); id != "a" {
			t.Errorf("%v", id)
		}
		steady.mu.Lock()
		before := steady.received
		steady.mu.Unlock()
		electortest.Advance(time.Minute)
		steady.mu.Lock()
		defer steady.mu.Unlock()
		if n := steady.received - before; n < 60 || n > 400 {
			t.Errorf("%d messages in a minute", n)
		}
	})
}

// Anyone who may write to Redis can't fill a browser, nor break the format.
func TestHostileRedis(t *testing.T) {
	bubble(t, console.Config{MaxElections: 200}, func(t *testing.T, s *server, _ *console.Console) {
		rdb := s.redis.Client("evil")
		ctx := t.Context()
		long := strings.Repeat("x", 10000)
		evil := "<img src=x onerror=alert(1)>\n\nevent: status\ndata: {}"
		for i := range 300 {
			rdb.Set(ctx, fmt.Sprintf("mandate:{e%04d}:fence", i), "7", 0)
		}
		rdb.Set(ctx, "mandate:{not a name}:fence", "7", 0)
		rdb.Set(ctx, "mandate:{e0000}:lock", "c/INCARNATION/1 n=1 lease=10000 token=7", time.Hour)
		rdb.Set(ctx, "mandate:{e0000}:pause", evil+long, 0)
		for i := range 100 {
			ev, _ := json.Marshal(map[string]any{"v": 1, "kind": "released", "election": "e0000", "candidate": evil, "token": i % 8, "reason": long, "detail": evil, "time": time.Now()})
			rdb.XAdd(ctx, &redis.XAddArgs{Stream: "mandate:{e0000}:history", Values: []any{"event", string(ev)}})
		}
		v := s.view("e0000")
		electortest.Advance(15 * time.Second)
		v.mu.Lock()
		defer v.mu.Unlock()
		shown := 0
		for part, values := range v.parts {
			b, _ := json.Marshal(values)
			if len(b) > 100_000 || strings.HasPrefix(part, "unreadable") {
				t.Errorf("%s: %d bytes", part, len(b))
			}
			if strings.HasPrefix(part, "row ") {
				shown++
			}
		}
		if hidden, _ := v.parts["site"]["hidden"].(float64); shown != 200 || hidden != 100 { // not the one whose name is none
			t.Errorf("%d are shown, %v hidden", shown, hidden)
		}
		pause, _ := v.parts["status e0000"]["pause"].(string)
		if v.parts["status e0000"]["paused"] != true || !strings.HasPrefix(pause, evil) || len(pause) > 400 {
			t.Errorf("%.200v", v.parts["status e0000"])
		}
	})
}

// Redis is queried only while there are viewers, and no more often when many do.
func TestNoQueriesWithoutViewers(t *testing.T) {
	bubble(t, console.Config{}, func(t *testing.T, s *server, _ *console.Console) {
		rdb := s.redis.Client("x")
		for i := range 3 {
			rdb.Set(t.Context(), fmt.Sprintf("mandate:{e%d}:fence", i), "7", 0)
		}
		per := func(d time.Duration) int {
			before := s.commands()
			electortest.Advance(d)
			return s.commands() - before
		}
		electortest.Advance(time.Minute)
		if n := per(time.Hour); n > 5 {
			t.Errorf("nobody watches: %d commands in an hour", n)
		}
		v := s.view()
		electortest.Advance(time.Minute)
		one := per(time.Minute)
		for range 10 {
			s.view()
		}
		electortest.Advance(time.Minute)
		many := per(time.Minute)
		if one < 180 || many > one*11/10 {
			t.Errorf("%d commands a minute for one viewer, %d for eleven", one, many)
		}
		_ = v
	})
}

// The times that docs/console.md names.
func TestDocumentedTimes(t *testing.T) {
	bubble(t, console.Config{}, func(t *testing.T, s *server, _ *console.Console) {
		s.redis.Lead(s.candidate("e", "a"))
		perMinute := func() int {
			before := s.commands()
			electortest.Advance(time.Minute)
			return s.commands() - before
		}
		electortest.Advance(time.Minute)
		alone := perMinute() // the candidate's own
		v := s.view()
		electortest.Advance(15 * time.Second)
		sub := s.redis.Client("x").Subscribe(t.Context(), "mandate:{e}:roll")
		rolls := sub.Channel()
		electortest.Advance(time.Minute)
		_ = sub.Close()
		if n := len(rolls); n < 5 || n > 6 { // the next one comes ten seconds after the answers
			t.Errorf("%d roll calls in a minute, want one in ten seconds", n)
		}
		v.close()
		electortest.Advance(5*time.Second + 100*time.Millisecond)
		if n := perMinute(); n > alone+5 {
			t.Errorf("%d commands in a minute after the last viewer left, %d before the first one came", n, alone)
		}
		still := s.dial(fmt.Sprintf(getLive, ""))
		began := time.Now()
		electortest.Advance(time.Minute) // it fills what the connection holds
		if _, err := io.Copy(io.Discard, still); err != nil {
			t.Errorf("a viewer that reads nothing is still there after %v: %v", time.Since(began), err)
		}
	})
}

func TestActions(t *testing.T) {
	bubble(t, console.Config{Token: token}, func(t *testing.T, s *server, _ *console.Console) {
		a, b := s.candidate("e", "a"), s.candidate("e", "b")
		s.redis.Lead(a)
		v := s.view()
		electortest.Advance(3 * time.Second)
		post := s.post
		if code, answer := post("transfer", `{"election":"e","to":"b"}`); code != 200 || !strings.Contains(answer, "b leads, token") || !b.IsLeader() {
			t.Errorf("transfer: %d %s", code, answer)
		}
		if code, answer := post("transfer", `{"election":"e","to":"nobody"}`); code != 409 || !strings.Contains(answer, "no candidate nobody answers") {
			t.Errorf("transfer to nobody: %d %s", code, answer)
		}
		if code, answer := post("transfer", `{"election":"e"}`); code != 400 {
			t.Errorf("transfer: %d %s", code, answer)
		}
		electortest.Advance(5 * time.Second) // a has cooled down
		if code, answer := post("resign", `{"election":"e","reason":"new kernel"}`); code != 200 || !strings.Contains(answer, "a leads") || !a.IsLeader() {
			t.Errorf("resign: %d %s", code, answer)
		}
		electortest.Advance(3 * time.Second)
		if last := v.list("terms e", "terms")[1]; last["id"] != "b" || !strings.Contains(fmt.Sprint(last["detail"]), "new kernel") {
			t.Errorf("%v", last)
		}
		if code, answer := post("pause", `{"election":"e","for_ms":3600000,"reason":"migration"}`); code != 200 {
			t.Errorf("pause: %d %s", code, answer)
		}
		electortest.Advance(2 * time.Second)
		if v.get("status e", "paused") != true || v.get("status e", "pause") != "by console from pipe: migration" {
			t.Errorf("%v", v.get("status e"))
		}
		if code, answer := post("resign", `{"election":"e"}`); code != 409 || !strings.Contains(answer, "the election is paused (by console from pipe: migration)") || !a.IsLeader() {
			t.Errorf("resign in a pause: %d %s", code, answer)
		}
		if code, answer := post("resign", `{"election":"e","force":true}`); code != 409 || !strings.Contains(answer, "has stepped down") || a.IsLeader() {
			t.Errorf("resign all the same: %d %s", code, answer)
		}
		if code, answer := post("resume", `{"election":"e"}`); code != 200 {
			t.Errorf("resume: %d %s", code, answer)
		}
		for _, bad := range []string{`{"election":"e","for_ms":-1}`, `{"election":"e","for_ms":99999999999999}`, `{"election":"e","reason":"` + strings.Repeat("x", 600) + `"}`} {
			if code, answer := post("pause", bad); code != 400 {
				t.Errorf("pause %.60s: %d %s", bad, code, answer)
			}
		}
		electortest.Advance(2 * time.Second)
		if v.get("status e", "paused") != false {
			t.Errorf("%v", v.get("status e"))
		}
	})
}

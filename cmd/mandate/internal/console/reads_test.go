package console_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/health"
)

// Regression: the page allowed a roll call 2 s, which takes up to 3 s beside a node that
// hangs: healthy candidates were shown as unresponsive just when somebody looked.
func TestHungNodeLeavesCandidatesHealthy(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		all := consoletest.Nodes{r, electortest.Start(t), electortest.Start(t)}
		s := serve(t, r, console.Config{Quorum: all.Quorum(t, "console", 0, 1, 2)})
		for _, id := range []string{"a", "b", "c"} {
			consoletest.CandidateOn(t, all.Quorum(t, id, 0, 1, 2), "e", id)
		}
		v := s.view()
		electortest.Advance(15 * time.Second)
		for _, host := range []string{"console", "a", "b", "c"} {
			all[2].CutOff(host)
		}
		// Longer than six roll calls; after each, none may be unresponsive.
		for range 60 {
			electortest.Advance(time.Second)
			for _, c := range v.list("roll e", "candidates") {
				if c["unresponsive_ms"] != nil {
					t.Fatalf("a candidate is shown as unresponsive: %v", v.list("roll e", "candidates"))
				}
			}
			if n := len(v.list("roll e", "candidates")); n != 3 {
				t.Fatalf("%d candidates", n)
			}
		}
		consoletest.CandidateOn(t, all.Quorum(t, "d", 0, 1, 2), "e", "d")
		electortest.Advance(30 * time.Second) // two roll calls and more
		if n := len(v.list("roll e", "candidates")); n != 4 {
			t.Errorf("%d candidates after a fourth one came: no roll call succeeds", n)
		}
		if of, able := v.get("row e", "of"), v.get("row e", "able"); of != 4.0 || able != 4.0 {
			t.Errorf("the row has %v of %v candidates", able, of)
		}
		down := 0
		for _, n := range v.list("redis", "nodes") {
			if n["error"] != nil {
				down++
			}
		}
		if down != 1 || v.get("redis", "known") != true {
			t.Errorf("the nodes: %v", v.get("redis"))
		}
	})
}

// What all rows cost together does not grow with their number; only the open ones are read
// each second.
func TestManyElectionsAreReadSlowly(t *testing.T) {
	bubble(t, console.Config{}, func(t *testing.T, s *server, _ *console.Console) {
		rdb := s.redis.Client("x")
		per := func(d time.Duration) int {
			before := s.commands()
			electortest.Advance(d)
			return s.commands() - before
		}
		add := func(from, until int) {
			for i := from; i < until; i++ {
				rdb.Set(t.Context(), fmt.Sprintf("mandate:{e%d}:fence", i), "7", 0)
			}
		}
		add(0, 200)
		v := s.view("e0")
		electortest.Advance(5 * time.Second)
		few := per(10 * time.Second)
		add(200, 500)
		electortest.Advance(20 * time.Second) // the next list, and the first reading of all
		many := per(10 * time.Second)
		if many > few*5/4 {
			t.Errorf("%d commands in 10 s for 200 elections, %d for 500", few, many)
		}
		if v.get("status e0", "election") != "e0" || v.get("row e499", "state") != "abandoned" {
			t.Errorf("the open one: %v; the last one: %v", v.get("status e0"), v.get("row e499"))
		}
		// The open one is still read each second.
		rdb.Set(t.Context(), "mandate:{e0}:pause", "now", 0)
		electortest.Advance(3 * time.Second)
		if v.get("status e0", "paused") != true {
			t.Errorf("an open election is read too seldom: %v", v.get("status e0"))
		}
	})
}

// Elections that nobody uses don't make those slow that somebody does, and one of them that gets
// candidates is soon no longer one of them.
func TestIdleElectionsSlowNoneDown(t *testing.T) {
	bubble(t, console.Config{}, func(t *testing.T, s *server, _ *console.Console) {
		rdb := s.redis.Client("x")
		for i := range 1000 {
			rdb.Set(t.Context(), fmt.Sprintf("mandate:{idle%d}:fence", i), "7", 0)
		}
		s.redis.Lead(s.candidate("e", "a"))
		v := s.view("")
		electortest.Advance(30 * time.Second)
		for range 3 {
			rdb.Set(t.Context(), "mandate:{e}:pause", "now", 0)
			electortest.Advance(2 * time.Second)
			if v.get("row e", "paused") != true {
				t.Errorf("paused for 2 s: %v", v.get("row e"))
			}
			rdb.Del(t.Context(), "mandate:{e}:pause")
			electortest.Advance(2 * time.Second)
		}
		s.redis.Lead(s.candidate("idle7", "b"))
		electortest.Advance(12 * time.Second)
		if v.get("row idle7", "leader") != "b" || v.get("row idle7", "of") != 1.0 {
			t.Errorf("led for 12 s: %v", v.get("row idle7"))
		}
	})
}

// Details go to those who opened the election only.
func TestDetailsOfOpenElections(t *testing.T) {
	bubble(t, console.Config{}, func(t *testing.T, s *server, c *console.Console) {
		s.redis.Lead(s.candidate("e", "a"))
		s.redis.Lead(s.candidate("f", "b"))
		v := s.view("f")
		electortest.Advance(3 * time.Second)
		if v.get("row e", "leader") != "a" || v.get("row f", "leader") != "b" || v.get("row e", "state") != "led" {
			t.Errorf("rows: %v, %v", v.get("row e"), v.get("row f"))
		}
		if v.get("status e", "election") != nil || v.get("roll e", "election") != nil || v.get("terms e", "election") != nil {
			t.Error("details of an election that nobody opened")
		}
		if v.get("status f", "leader", "id") != "b" || len(v.list("roll f", "candidates")) != 1 || len(v.list("terms f", "terms")) != 1 {
			t.Errorf("details: %v, %v, %v", v.get("status f"), v.get("roll f"), v.get("terms f"))
		}
		// Another one is there soon after it was opened, not at the next roll call.
		w := s.view("e")
		electortest.Advance(2 * time.Second)
		if w.get("status e", "leader", "id") != "a" || len(w.list("roll e", "candidates")) != 1 || len(w.list("terms e", "terms")) != 1 {
			t.Errorf("opened: %v, %v, %v", w.get("status e"), w.get("roll e"), w.get("terms e"))
		}
		if w := request(c, http.MethodGet, "/api/live?election="+strings.Repeat("x&election=", 30), ""); w.Code != http.StatusBadRequest {
			t.Errorf("31 elections: %d", w.Code)
		}
	})
}

// States of the rows: a leader that is missed, and what nobody uses any more.
func TestRowStates(t *testing.T) {
	bubble(t, console.Config{}, func(t *testing.T, s *server, _ *console.Console) {
		rdb := s.redis.Client("x")
		rdb.Set(t.Context(), "mandate:{old}:fence", "7", 0)
		record := func(election, kind string, ago time.Duration) {
			rdb.Set(t.Context(), "mandate:{"+election+"}:fence", "7", 0)
			rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "mandate:{" + election + "}:history", Values: []any{"event", fmt.Sprintf(
				`{"v":1,"kind":%q,"election":%q,"candidate":"x","incarnation":"X","token":7,"time":%q,"reason":"shutdown"}`, kind, election, time.Now().Add(-ago).Format(time.RFC3339))}})
		}
		record("late", "elected", time.Minute)
		record("late", "released", 0)
		record("left", "elected", 72*time.Hour)
		record("left", "released", 48*time.Hour)
		record("killed", "elected", 48*time.Hour) // and killed a minute ago, perhaps
		// Its first deploy has a broken probe: nothing of it is kept in Redis.
		consoletest.CandidateOn(t, s.redis.Quorum("b"), "new", "b", func(cfg *elector.Config) {
			cfg.Probe = health.Func(func(context.Context) error { return errors.New("HTTP 503") })
		})
		a := s.candidate("e", "a")
		s.redis.Lead(a)
		v := s.view("e")
		electortest.Advance(5 * time.Second)
		for name, want := range map[string]string{"new": "vacant", "old": "abandoned", "late": "vacant", "left": "abandoned", "killed": "vacant", "e": "led"} {
			if got := v.get("row "+name, "state"); got != want {
				t.Errorf("%s is %v, want %s: %v", name, got, want, v.get("row "+name))
			}
		}
		if v.get("past late", "reason") != "shutdown" || v.get("past late", "bad") != nil {
			t.Errorf("past: %v", v.get("past late"))
		}
		if v.get("past killed", "reason") != "vanished" || v.get("past killed", "until") != nil {
			t.Errorf("the begin of a term is shown as its end: %v", v.get("past killed"))
		}
		s.redis.CutOff("a")
		electortest.Advance(30 * time.Second) // its lease ends; then nobody answers
		if v.get("row e", "state") != "vacant" || v.get("row e", "of") != 0.0 || v.get("past e", "bad") != true {
			t.Errorf("all candidates gone: %v, %v", v.get("row e"), v.get("past e"))
		}
	})
}

// Names that nobody uses any more must not push those out that somebody does, whatever they are
// called: first the elections with a leader, candidates or a pause, then those that are missed.
func TestIdleElectionsPushNoneOut(t *testing.T) {
	bubble(t, console.Config{MaxElections: 20}, func(t *testing.T, s *server, _ *console.Console) {
		rdb := s.redis.Client("x")
		for i := range 30 {
			rdb.Set(t.Context(), fmt.Sprintf("mandate:{a%02d}:fence", i), "7", 0)
		}
		rdb.Set(t.Context(), "mandate:{paused}:pause", "x", 0)
		rdb.Set(t.Context(), "mandate:{missed}:fence", "7", 0)
		for _, kind := range []string{"elected", "released"} {
			rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "mandate:{missed}:history", Values: []any{"event", fmt.Sprintf(
				`{"v":1,"kind":%q,"election":"missed","candidate":"x","incarnation":"X","token":7,"time":%q,"reason":"shutdown"}`, kind, time.Now().Format(time.RFC3339))}})
		}
		s.redis.Lead(s.candidate("orders", "a"))
		v := s.view("orders")
		electortest.Advance(15 * time.Second)
		for name, want := range map[string]string{"orders": "led", "paused": "paused", "missed": "vacant", "a00": "abandoned", "a16": "abandoned"} {
			if got := v.get("row "+name, "state"); got != want {
				t.Errorf("%s is %v, want %s", name, got, want)
			}
		}
		if v.get("row a17", "state") != nil || v.get("site", "hidden") != 13.0 {
			t.Errorf("more than fit: %v; %v are hidden", v.get("row a17", "state"), v.get("site", "hidden"))
		}
	})
}

// A script needs no page that is open.
func TestActionsWithoutAViewer(t *testing.T) {
	bubble(t, console.Config{Token: token}, func(t *testing.T, s *server, _ *console.Console) {
		a, b := s.candidate("e", "a"), s.candidate("e", "b")
		s.redis.Lead(a)
		electortest.Advance(time.Second)
		if code, answer := s.post("transfer", `{"election":"e","to":"b","by":"deploy@ci"}`); code != 200 || !b.IsLeader() {
			t.Errorf("transfer: %d %s", code, answer)
		}
		for _, action := range []string{"pause", "resume", "resign"} {
			if code, answer := s.post(action, `{"election":"eee"}`); code != 404 || !strings.Contains(answer, "no such election") {
				t.Errorf("%s of a name that Redis does not know: %d %s", action, code, answer)
			}
		}
		if code, answer := s.post("pause", `{"election":"e","for_ms":"5m"}`); code != 400 || !strings.Contains(answer, "for_ms must be of type integer, and is a string") {
			t.Errorf("a time of the wrong type: %d %s", code, answer)
		}
		if code, answer := s.post("pause", `{"election":"e","by":"x\u001b[2J"}`); code != 400 {
			t.Errorf("a name that would clear a terminal: %d %s", code, answer)
		}
		el, err := s.redis.Quorum("x").Election("e")
		if err != nil {
			t.Fatal(err)
		}
		terms, err := el.History(t.Context(), 3)
		if err != nil || len(terms) < 2 || !strings.Contains(terms[1].Detail, "deploy@ci") {
			t.Errorf("who wanted it: %+v, %v", terms, err)
		}
	})
}

func (s *server) post(action, body string) (code int, answer string) {
	s.t.Helper()
	conn := s.dial(fmt.Sprintf("POST /api/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: bearer %s\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s",
		action, token, len(body), body))
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	got, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(got)
}

// Below a path, behind a proxy: who it was stands in the log as the proxy names it, and
// nobody else is believed.
func TestBehindAProxy(t *testing.T) {
	var log strings.Builder
	c, err := console.New(console.Config{
		Quorum: electortest.Start(t).Quorum("console"), Token: token, BasePath: "/mandate/", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/mandate/": 200, "/mandate/console.js": 200, "/mandate": 308, "/": 200, "/mandated": 404, "/mandate/healthz": 200, "/healthz": 200} {
		w := request(c, http.MethodGet, path, "")
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if at := w.Header().Get("Location"); want == 308 && at != "/mandate/" {
			t.Errorf("%s leads to %q", path, at)
		}
	}
	if w := request(c, http.MethodGet, "/healthz", "", func(r *http.Request) { r.Host = "10-0-0-1.pod" }); w.Code != 200 || !strings.Contains(w.Body.String(), `"ok"`) {
		t.Errorf("healthz by the name of a pod: %d %s", w.Code, w.Body)
	}
	for _, test := range []struct{ remote, forwarded, want string }{
		{"10.0.0.1:4711", "198.51.100.7", "from=198.51.100.7 "},
		{"10.0.0.1:4711", "203.0.113.9, 198.51.100.7, 10.2.2.2", "from=198.51.100.7 "}, // the first one is the client's own claim
		{"10.0.0.1:4711", "[2001:db8::1]:99", "from=2001:db8::1 "},
		{"10.0.0.1:4711", "<b>", "from=10.0.0.1:4711"},
		{"192.0.2.1:4711", "198.51.100.7", "from=192.0.2.1:4711"},
	} {
		log.Reset()
		request(c, http.MethodPost, "/mandate/api/resign", `{}`, bearer("another-token-that-is-long"), func(r *http.Request) {
			r.RemoteAddr = test.remote
			r.Header.Set("X-Forwarded-For", test.forwarded)
		})
		if !strings.Contains(log.String(), test.want) {
			t.Errorf("%s for %s: %s, want %s", test.remote, test.forwarded, log.String(), test.want)
		}
	}
	for _, path := range []string{"mandate", "/a b", "//x", "/../x", "/{x}"} {
		if _, err := console.New(console.Config{BasePath: path}); err == nil {
			t.Errorf("the base path %q is accepted", path)
		}
	}
}

// Regression: "by" in the request stood above the login that the proxy names, so that anybody
// could replace anybody's pause. And the log said that a pause which was refused was made.
func TestLoginStandsAboveBy(t *testing.T) {
	var log strings.Builder
	r := electortest.Start(t)
	r.Client("x").Set(t.Context(), "mandate:{e}:fence", "7", 0)
	c, err := console.New(console.Config{
		Quorum: r.Quorum("console"), Token: token, Logger: slog.New(slog.NewTextHandler(&log, nil)), Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		remote, login, by string
		code              int
		logged            string
	}{
		{"10.0.0.1:4711", "ann", "", 200, "by=ann "},
		{"10.0.0.1:4711", "eve", "ann", 409, "by=eve "},
		{"192.0.2.1:4711", "ann", "eve", 409, "by=eve "}, // anybody can send the header
		{"10.0.0.1:4711", "", "ann", 200, "by=ann "},
		{"10.0.0.1:4711", "\a", "ann", 200, "by=ann "},
	} {
		log.Reset()
		w := request(c, http.MethodPost, "/api/pause", fmt.Sprintf(`{"election":"e","by":%q}`, test.by), bearer(token), func(r *http.Request) {
			r.RemoteAddr = test.remote
			r.Header.Set("X-Forwarded-User", test.login)
		})
		if w.Code != test.code || !strings.Contains(log.String(), test.logged) || strings.Contains(log.String(), "paused: ") != (test.code == 200) {
			t.Errorf("%+v: %d %s\n%s", test, w.Code, w.Body, log.String())
		}
	}
}

// The page can need a token of its own, which gives no right to act.
func TestReadToken(t *testing.T) {
	if _, err := console.New(console.Config{Quorum: electortest.Start(t).Quorum("console"), Token: token, ReadToken: token}); err == nil {
		t.Error("one token for readers and operators is accepted: whoever may read could act")
	}
	const reading = "a-token-for-those-who-read"
	c := newConsole(t, console.Config{Quorum: electortest.Start(t).Quorum("console"), Token: token, ReadToken: reading})
	password := func(p string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth("anyone", p) }
	}
	for _, path := range []string{"/", "/console.js"} {
		if w := request(c, http.MethodGet, path, ""); w.Code != 401 || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s without: %d %v", path, w.Code, w.Header())
		}
		if w := request(c, http.MethodGet, path, "", password("wrong-and-long-enough")); w.Code != 401 {
			t.Errorf("%s with a wrong one: %d", path, w.Code)
		}
		for _, edit := range []func(*http.Request){password(reading), bearer(reading)} {
			if w := request(c, http.MethodGet, path, "", edit); w.Code != 200 {
				t.Errorf("%s with it: %d", path, w.Code)
			}
		}
	}
	if w := request(c, http.MethodGet, "/api/live", ""); w.Code != 401 {
		t.Errorf("the stream without: %d", w.Code)
	}
	if w := request(c, http.MethodPost, "/api/pause", `{"election":"e"}`, bearer(reading)); w.Code != 401 {
		t.Errorf("pause with the token for reading: %d", w.Code)
	}
	if w := request(c, http.MethodPost, "/api/resume", `{"election":"e"}`, bearer(token)); w.Code != 404 {
		t.Errorf("resume with the token for acting: %d", w.Code)
	}
	if w := request(c, http.MethodGet, "/healthz", ""); w.Code != 200 {
		t.Errorf("healthz: %d", w.Code)
	}
}

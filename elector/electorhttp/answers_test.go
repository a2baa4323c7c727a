package electorhttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/electorhttp"
)

func leadership(t *testing.T, h http.Handler) (int, electorhttp.Leadership) {
	t.Helper()
	w := ask(h, http.MethodGet, "/leader")
	var l electorhttp.Leadership
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return w.Code, l
}

func TestLeaderEndpoint(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		heal := s.redis.CutOff("a") // no election yet
		a, ha := s.start("a", electorhttp.Config{})
		if code, l := leadership(t, ha); code != http.StatusServiceUnavailable || l.Leading || l.Leader != "" || l.Candidate != "a" || l.Election != "e" {
			t.Errorf("before the election: %d, %+v", code, l)
		}
		heal()
		until(t, 2*lease, "a leads", a.IsLeader)
		_, hb := s.start("b", electorhttp.Config{})
		time.Sleep(lease)
		token := a.Term().Token()
		code, l := leadership(t, ha)
		if code != http.StatusOK || !l.Leading || l.Leader != "a" || l.Address != "http://a:80" || l.Token != token ||
			l.ValidFor <= 0 || l.ValidFor > lease.Milliseconds() {
			t.Errorf("on the leader: %d, %+v", code, l)
		}
		code, l = leadership(t, hb)
		if code != http.StatusServiceUnavailable || l.Leading || l.Leader != "a" || l.Address != "http://a:80" || l.Token != token || l.ValidFor != 0 {
			t.Errorf("on a follower: %d, %+v", code, l)
		}
		// What load balancers send by default: HAProxy OPTIONS /, others HEAD.
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			for path, want := range map[string][2]int{"/": {200, 503}, "/leader": {200, 503}, "/ready": {200, 200}, "/live": {200, 200}, "/status": {200, 200}, "/nosuch": {404, 404}} {
				if got := [2]int{ask(ha, method, path).Code, ask(hb, method, path).Code}; got != want {
					t.Errorf("%s %s: %d on the leader and a follower, want %d", method, path, got, want)
				}
			}
		}
		if l := ask(ha, http.MethodOptions, "/leader"); !strings.Contains(l.Body.String(), `"valid_for_ms":0`) {
			t.Errorf("OPTIONS promises: %s", l.Body)
		}
		w := ask(ha, http.MethodHead, "/leader")
		for name, want := range map[string]string{
			"Mandate-Leader": "a", "Mandate-Candidate": "a", "Mandate-Election": "e", "Mandate-Address": "http://a:80",
			"Mandate-Token": fmt.Sprint(token), "Cache-Control": "no-store",
		} {
			if got := w.Header().Get(name); got != want || w.Code != http.StatusOK {
				t.Errorf("HEAD: %d, %s is %q, want %q", w.Code, name, got, want)
			}
		}
	})
}

// A leader that is cut off never answers 200 beyond its deadline.
func TestLeaderNeverBeyondTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		e, h := s.startLeader(electorhttp.Config{})
		time.Sleep(lease)
		term := e.Term()
		s.redis.CutOff("a")
		deadline, well := term.Deadline(), 0
		for end := time.Now().Add(2 * lease); time.Now().Before(end); time.Sleep(time.Millisecond) {
			code, l := leadership(t, h)
			if code != http.StatusOK {
				continue
			}
			well++
			if !time.Now().Before(deadline) {
				t.Fatalf("200 %v after the deadline: %+v", time.Since(deadline), l)
			}
			if l.ValidFor > time.Until(deadline).Milliseconds() {
				t.Fatalf("it promises %d ms, and the deadline is in %v", l.ValidFor, time.Until(deadline))
			}
		}
		if left := lease.Milliseconds() / 4; int64(well) < left { // it had renewed less than a quarter ago
			t.Errorf("200 for %d ms only after it was cut off", well)
		}
		if code := ask(h, http.MethodGet, "/status").Code; code != http.StatusBadGateway {
			t.Errorf("status of a Redis that is away: %d", code)
		}
		if code := ask(h, http.MethodGet, "/ready").Code; code != http.StatusServiceUnavailable {
			t.Errorf("ready without a Redis: %d", code)
		}
		if code := ask(h, http.MethodGet, "/live").Code; code != http.StatusOK {
			t.Errorf("live: %d", code)
		}
	})
}

// A follower that can ask nobody names its last leader no longer than that one
// can have led, up to the time-out of the question.
func TestLeaderIsForgottenWithItsLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a, _ := s.startLeader(electorhttp.Config{})
		_, h := s.start("b", electorhttp.Config{})
		for range 50 { // a healthy leader is never forgotten
			time.Sleep(lease / 10)
			if _, l := leadership(t, h); l.Leader != "a" {
				t.Fatalf("while a leads: %+v", l)
			}
		}
		heal := s.redis.CutOff("b")
		until(t, lease+1600*time.Millisecond, "b forgets a", func() bool {
			_, l := leadership(t, h)
			return l.Leader == "" && l.Address == "" && l.Token == 0
		})
		time.Sleep(3 * lease)
		if _, l := leadership(t, h); l.Leader != "" {
			t.Errorf("cut off for three leases: %+v", l)
		}
		heal()
		until(t, lease, "b knows a again", func() bool {
			_, l := leadership(t, h)
			return l.Leader == "a" && l.Token == a.Term().Token()
		})
	})
}

func TestResign(t *testing.T) {
	const token = "a long and random secret"
	bubble(t, func(t *testing.T, s *stage) {
		e, h := s.startLeader(electorhttp.Config{Token: token})
		_, follower := s.start("b", electorhttp.Config{Token: token})
		until(t, 2*lease, "b could lead", func() bool { // before it follows, /resign is refused: no other candidate could lead
			able, err := e.Election().Successors(t.Context())
			return err == nil && len(able) == 1
		})
		if w := ask(follower, http.MethodPost, "/resign", "Authorization", "Bearer "+token); w.Code != http.StatusConflict {
			t.Errorf("a follower: %d %s", w.Code, w.Body)
		}
		for _, auth := range []string{"", token, "Bearer", "Bearer ", "Bearer " + token + "x", "Bearer " + token[1:], "Basic " + token} {
			if w := ask(h, http.MethodPost, "/resign", "Authorization", auth); w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("with %q: %d", auth, w.Code)
			}
		}
		if w := ask(h, http.MethodGet, "/resign", "Authorization", "Bearer "+token); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET /resign: %d", w.Code)
		}
		if !e.IsLeader() {
			t.Fatal("it stepped down for somebody without the token")
		}
		if w := ask(h, http.MethodPost, "/resign", "Authorization", "bearer "+token); w.Code != http.StatusOK || e.IsLeader() {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	bubble(t, func(t *testing.T, s *stage) { // no candidate could lead after it
		e, h := s.startLeader(electorhttp.Config{Token: token})
		for path, want := range map[string]int{"/resign": http.StatusConflict, "/resign?force=false": http.StatusConflict, "/resign?force=yes": http.StatusBadRequest} {
			w := ask(h, http.MethodPost, path, "Authorization", "Bearer "+token)
			if w.Code != want || !strings.Contains(w.Body.String(), "force") || !e.IsLeader() {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		if w := ask(h, http.MethodPost, "/resign?force=true", "Authorization", "Bearer "+token); w.Code != http.StatusOK || e.IsLeader() {
			t.Errorf("forced: %d %s", w.Code, w.Body)
		}
	})
	bubble(t, func(t *testing.T, s *stage) {
		e, h := s.startLeader(electorhttp.Config{})
		if w := ask(h, http.MethodPost, "/resign", "Authorization", "Bearer "); w.Code != http.StatusForbidden || !e.IsLeader() {
			t.Errorf("not enabled: %d", w.Code)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		e := s.candidate("a")
		if _, err := electorhttp.New(e, electorhttp.Config{Token: "fifteen bytes.."}); err == nil {
			t.Error("a short token was accepted")
		}
		if _, err := electorhttp.New(e, electorhttp.Config{Promise: 5}); err == nil || !strings.Contains(err.Error(), "Promise is 5ns: give at least 1ms (was the unit forgotten") {
			t.Error(err)
		}
		if _, err := electorhttp.New(nil, electorhttp.Config{}); err == nil {
			t.Error("nil was accepted")
		}
	})
	if _, err := electorhttp.Listen(t.Context(), "nonsense"); err == nil || !strings.Contains(err.Error(), "host:port") {
		t.Error(err)
	}
	l, err := electorhttp.Listen(t.Context(), ":0")
	must(t, err)
	defer l.Close()
	if !strings.HasPrefix(l.Addr().String(), "127.0.0.1:") {
		t.Errorf("without a host it listens on %s", l.Addr())
	}
}

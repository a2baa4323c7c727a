package electorhttp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// Each replica takes requests, and the leader's app answers them, with the term's token.
func TestForward(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{})
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", electorhttp.ForwardConfig{})
		for _, to := range []string{"a", "b"} {
			resp, body, err := f.do(to, http.MethodPost, "/"+to, "hello")
			if err != nil || resp.StatusCode != http.StatusOK || body != "a /"+to+" hello" {
				t.Fatalf("%v %+v %q", err, resp, body)
			}
			if resp.Header.Get("Mandate-Leader") != "a" || resp.Header.Get("Mandate-Token") != fmt.Sprint(a.Term().Token()) {
				t.Errorf("%v", resp.Header)
			}
		}
		var got http.Header
		var host string
		a.app = func(_ http.ResponseWriter, r *http.Request) { got, host = r.Header, r.Host }
		if _, _, err := f.do("b", http.MethodGet, "/", "", "X-Forwarded-For", "192.0.2.7", "X-Forwarded-Proto", "https",
			"Mandate-Token", "99", "Connection", "X-Hop", "X-Hop", "1", "X-End", "2"); err != nil {
			t.Fatal(err)
		}
		if got.Get("Mandate-Token") != fmt.Sprint(a.Term().Token()) || got.Get("Mandate-Forwarded") != "" || host != "b" ||
			!strings.HasPrefix(got.Get("X-Forwarded-For"), "192.0.2.7, ") && got.Get("X-Forwarded-For") != "192.0.2.7" ||
			got.Get("X-Forwarded-Proto") != "https" || got.Get("X-Hop") != "" || got.Get("X-End") != "2" {
			t.Errorf("the app has got %v, host %q", got, host)
		}
	})
}

// During planned hand-overs no request fails, whatever its method, and each is executed once.
func TestForwardDuringHandovers(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		ids := []string{"a", "b", "c"}
		for _, id := range ids {
			f.start(id, electorhttp.ForwardConfig{}, func(c *elector.Config) { c.Cooldown = -1 })
		}
		until(t, "one leads", 2*lease, func() bool { return f.leader() != nil })
		time.Sleep(lease)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var clients sync.WaitGroup
		var mu sync.Mutex
		sent := map[string]bool{}
		var slowest time.Duration
		for c := range 5 {
			clients.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					path := fmt.Sprintf("/%d/%d", c, n)
					began := time.Now()
					resp, body, err := f.do(ids[rand.IntN(len(ids))], http.MethodPost, path, "x")
					if err != nil || resp.StatusCode != http.StatusOK {
						t.Errorf("%s: %v %+v %s", path, err, resp, body)
						return
					}
					mu.Lock()
					sent[path] = true
					slowest = max(slowest, time.Since(began))
					mu.Unlock()
					time.Sleep(3 * time.Millisecond)
				}
			})
		}
		for i := range 20 {
			was := f.leader()
			if was == nil {
				t.Fatal("no leader")
			}
			token := was.Term().Token()
			if i%2 == 0 {
				was.Term().Resign()
			} else if _, err := was.Election().Transfer(context.Background(), ids[(slices.Index(ids, was.id)+1)%len(ids)]); err != nil {
				t.Fatal(err)
			}
			until(t, "the next leads", lease, func() bool { l := f.leader(); return l != nil && l.Term().Token() > token })
			time.Sleep(lease / 20)
		}
		cancel()
		clients.Wait()
		for path := range sent {
			if f.executed[path] != 1 {
				t.Errorf("%s was executed %d times", path, f.executed[path])
			}
		}
		if len(sent) < 1000 || slowest > 200*time.Millisecond {
			t.Errorf("%d requests, the slowest took %v", len(sent), slowest)
		}
	})
}

// A leader that dies costs the requests that it had, and could not be sent twice.
func TestForwardWhenTheLeaderDies(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{})
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", electorhttp.ForwardConfig{})
		f.start("c", electorhttp.ForwardConfig{})
		time.Sleep(lease)
		a.app = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() } // it has not answered when it dies
		type result struct {
			code int
			body string
			err  error
		}
		send := func(method, path string, header ...string) <-chan result {
			c := make(chan result, 1)
			go func() {
				resp, body, err := f.do("b", method, path, "x", header...)
				if err != nil {
					c <- result{err: err}
					return
				}
				c <- result{resp.StatusCode, body, nil}
			}()
			return c
		}
		get, put, post := send(http.MethodGet, "/get"), send(http.MethodPut, "/put"), send(http.MethodPost, "/post")
		keyed := send(http.MethodPost, "/keyed", "Idempotency-Key", "k")
		time.Sleep(time.Second)
		f.kill(a)
		later := send(http.MethodPost, "/later")
		for name, c := range map[string]<-chan result{"get": get, "put": put, "keyed": keyed, "later": later} {
			if r := <-c; r.err != nil || r.code != http.StatusOK || !strings.HasSuffix(r.body, " /"+name+" x") {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if r := <-post; r.code != http.StatusBadGateway || !strings.Contains(r.body, "not known whether") {
			t.Errorf("post: %+v", r)
		}
		if f.executed["/post"] != 0 {
			t.Error("a request that may have been executed was sent again")
		}
	})
}

// A leader that does not answer is given up a second after another one leads.
func TestForwardToALeaderThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{})
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", electorhttp.ForwardConfig{})
		c := f.start("c", electorhttp.ForwardConfig{})
		time.Sleep(lease)
		release := make(chan struct{})
		defer close(release)
		a.app = func(http.ResponseWriter, *http.Request) { <-release }
		done := make(chan string, 1)
		go func() {
			_, body, err := f.do("b", http.MethodGet, "/get", "")
			done <- fmt.Sprint(body, err)
		}()
		time.Sleep(time.Second)
		f.s.redis.CutOff(a.id) // its app hangs: the lock lapses
		until(t, "another leads", 2*lease, func() bool { return c.IsLeader() || f.replicas["b"].IsLeader() })
		began := time.Now()
		if got := <-done; !strings.Contains(got, "/get") || time.Since(began) > 1500*time.Millisecond {
			t.Errorf("%q after %v", got, time.Since(began))
		}
	})
}

// While no candidate leads requests wait, so many and for so long as they may.
func TestForwardHolds(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{Hold: 5 * time.Second, MaxHeld: 1})
		until(t, "a leads", 2*lease, a.IsLeader)
		if err := a.Election().Pause(context.Background(), time.Hour, "test"); err != nil {
			t.Fatal(err)
		}
		a.Term().Resign()
		time.Sleep(time.Second)
		began := time.Now()
		first := make(chan *http.Response, 1)
		go func() {
			resp, _, _ := f.do("a", http.MethodPost, "/first", "x")
			first <- resp
		}()
		time.Sleep(time.Second)
		resp, body, err := f.do("a", http.MethodGet, "/second", "")
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "1 requests wait already") || time.Since(began) > 1100*time.Millisecond {
			t.Errorf("%v %+v %s after %v", err, resp, body, time.Since(began))
		}
		if resp := <-first; resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || time.Since(began).Round(time.Second) != 5*time.Second {
			t.Errorf("%+v after %v", resp, time.Since(began))
		}
		go func() {
			resp, _, _ := f.do("a", http.MethodPost, "/third", "x")
			first <- resp
		}()
		time.Sleep(time.Second)
		if err := a.Election().Resume(context.Background()); err != nil {
			t.Fatal(err)
		}
		if resp := <-first; resp.StatusCode != http.StatusOK {
			t.Errorf("%+v", resp)
		}
		if f.executed["/first"] != 0 || f.executed["/third"] != 1 {
			t.Errorf("%v", f.executed)
		}
	})
}

// A request is forwarded once: also where the leader advertises another replica, or a client
// says that it was forwarded.
func TestForwardOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		cfg := electorhttp.ForwardConfig{Hold: 2 * time.Second}
		a := f.start("a", cfg, func(c *elector.Config) { c.Advertise = "http://c" })
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", cfg)
		f.start("c", cfg)
		time.Sleep(lease)
		for _, to := range []string{"b", "c"} {
			began := time.Now()
			resp, body, err := f.do(to, http.MethodPost, "/", "x")
			if err != nil || resp.StatusCode != http.StatusServiceUnavailable || time.Since(began) > 3*time.Second {
				t.Errorf("%s: %v %+v %s after %v", to, err, resp, body, time.Since(began))
			}
		}
		if resp, body, err := f.do("b", http.MethodPost, "/", "x", "Mandate-Forwarded", "me"); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%v %+v %s", err, resp, body)
		}
		for _, c := range []struct{ address, want string }{
			{"", "the leader a advertises no address"},
			{"ftp://a", `the leader a advertises \"ftp://a\", which is no URL`},
			{"http://nobody", "the leader a can't be reached at http://nobody"},
		} {
			if err := a.SetAdvertise(c.address); err != nil {
				t.Fatal(err)
			}
			time.Sleep(lease)
			if resp, body, err := f.do("b", http.MethodPost, "/", "x"); err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, c.want) {
				t.Errorf("%v %+v %s", err, resp, body)
			}
		}
		if len(f.executed) > 0 {
			t.Errorf("%v", f.executed)
		}
	})
}

func TestForwardBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		h, err := electorhttp.New(s.candidate("a"), electorhttp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		app := http.NotFoundHandler()
		for _, c := range []struct {
			gate *elector.Gate
			app  http.Handler
			cfg  electorhttp.ForwardConfig
		}{
			{nil, app, electorhttp.ForwardConfig{}},
			{&elector.Gate{}, nil, electorhttp.ForwardConfig{}},
			{&elector.Gate{}, app, electorhttp.ForwardConfig{MaxHeld: -1}},
			{&elector.Gate{}, app, electorhttp.ForwardConfig{MaxBody: -1}},
		} {
			if _, err := h.Forward(c.gate, c.app, c.cfg); err == nil {
				t.Errorf("%+v was accepted", c)
			}
		}
	})
}

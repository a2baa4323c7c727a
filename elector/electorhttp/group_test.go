package electorhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/shard"
)

// sharing is a group whose members serve their shards over HTTP, and what each has begun.
type sharing struct {
	s  *stage
	mu sync.Mutex
	// of the newest term of each shard
	owner map[int]string
	began map[int]time.Time
}

func (g *sharing) join(id string, cfg electorhttp.Config) (h *electorhttp.Group, stop func()) {
	t := g.s.t
	t.Helper()
	m, err := shard.New(g.s.redis.Quorum(id), shard.Config{
		Group: "orders", Shards: 4, ID: id, Advertise: "http://" + id, Lease: lease, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if h, err = electorhttp.NewGroup(m, cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := m.Run(ctx, h.Work(func(ctx context.Context, term *shard.Term) error {
			g.mu.Lock()
			g.owner[term.Shard], g.began[term.Shard] = id, time.Now()
			g.mu.Unlock()
			<-ctx.Done()
			return nil
		}))
		if err != nil {
			t.Error(err)
		}
	}()
	end := func() { cancel(); <-done }
	t.Cleanup(end)
	return h, end
}

func (g *sharing) owned(id string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, o := range g.owner {
		if o == id {
			n++
		}
	}
	return n
}

func owning(t *testing.T, h http.Handler, query string) electorhttp.Ownership {
	t.Helper()
	w := ask(h, http.MethodGet, "/shards"+query)
	var o electorhttp.Ownership
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
	}
	return o
}

func inGroup(t *testing.T, f func(t *testing.T, g *sharing)) {
	t.Helper()
	bubble(t, func(t *testing.T, s *stage) {
		f(t, &sharing{s: s, owner: map[int]string{}, began: map[int]time.Time{}})
	})
}

// A shard that moves is not released before what its worker was promised has lapsed, and at once
// when the worker has reported that it has stopped at that shard.
func TestShardIsKeptAsPromised(t *testing.T) {
	for _, reports := range []bool{false, true} {
		t.Run(fmt.Sprintf("the worker reports: %v", reports), func(t *testing.T) {
			inGroup(t, func(t *testing.T, g *sharing) {
				a, _ := g.join("a", electorhttp.Config{})
				until(t, "a owns all", 2*lease, func() bool { return len(owning(t, a, "?valid_for_ms=0").Owned) == 4 })
				asked := time.Now()
				first := owning(t, a, "?worker=worker-1")
				tokens := map[int]uint64{}
				for i, o := range first.Owned {
					if o.Shard != i || o.Token == 0 || o.ValidFor != 2000 || first.Group != "orders" || first.Member != "a" || first.Shards != 4 {
						t.Fatalf("%+v", first)
					}
					tokens[o.Shard] = o.Token
				}
				g.join("b", electorhttp.Config{})
				until(t, "two are to move", lease, func() bool { return len(owning(t, a, "?valid_for_ms=0").Owned) == 2 })
				if g.owned("b") > 0 {
					t.Fatal("b began while a's worker may work")
				}
				here := map[int]bool{}
				for _, o := range owning(t, a, "?valid_for_ms=0").Owned {
					here[o.Shard] = true
				}
				told := time.Now()
				if reports {
					for s, token := range tokens {
						want := http.StatusOK
						if here[s] {
							want = http.StatusConflict
						}
						if w := ask(a, http.MethodPost, fmt.Sprintf("/stopped?worker=worker-1&shard=%d&token=%d", s, token)); w.Code != want {
							t.Errorf("shard %d: %d %s, want %d", s, w.Code, w.Body, want)
						}
					}
				}
				until(t, "b owns two", lease, func() bool { return g.owned("b") == 2 })
				for s, began := range g.began {
					switch {
					case g.owner[s] != "b":
					case !reports && began.Sub(asked) < 2*time.Second:
						t.Errorf("shard %d: b began %v after a's worker was promised 2s", s, began.Sub(asked))
					case reports && began.Sub(told) > 500*time.Millisecond:
						t.Errorf("shard %d: b began %v after a's worker had reported that it has stopped", s, began.Sub(told))
					}
				}
			})
		})
	}
}

// Who owns a shard is answered everywhere, with 200 by its owner alone.
func TestOwnerOfAShard(t *testing.T) {
	inGroup(t, func(t *testing.T, g *sharing) {
		a, _ := g.join("a", electorhttp.Config{})
		if w := ask(a, http.MethodGet, "/ready"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("ready before the member has joined: %d %s", w.Code, w.Body)
		}
		b, _ := g.join("b", electorhttp.Config{})
		until(t, "both own two", 2*lease, func() bool { return g.owned("a") == 2 && g.owned("b") == 2 })
		time.Sleep(lease)
		for s := range 4 {
			for id, h := range map[string]http.Handler{"a": a, "b": b} {
				w := ask(h, http.MethodGet, fmt.Sprint("/shards/", s))
				var o electorhttp.ShardOwner
				if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil {
					t.Fatal(err)
				}
				mine := g.owner[s] == id
				if o.Owner != g.owner[s] || o.Address != "http://"+o.Owner || o.Owned != mine || (w.Code == http.StatusOK) != mine || (o.ValidFor == 2000) != mine {
					t.Errorf("shard %d, owned by %s, at %s: %d %+v", s, g.owner[s], id, w.Code, o)
				}
			}
		}
		if w := ask(a, http.MethodGet, "/ready"); w.Code != http.StatusOK {
			t.Errorf("not ready: %d %s", w.Code, w.Body)
		}
		key := shard.Of("customer-17", 4)
		for id, h := range map[string]http.Handler{"a": a, "b": b} {
			w := ask(h, http.MethodGet, "/owner?key=customer-17")
			if (w.Code == http.StatusOK) != (g.owner[key] == id) || !strings.Contains(w.Body.String(), fmt.Sprintf(`"shard":%d`, key)) || !strings.Contains(w.Body.String(), `"valid_for_ms":0`) {
				t.Errorf("%s: %d %s", id, w.Code, w.Body)
			}
		}
	})
}

// A member without Redis reports no shard from their deadlines on.
func TestShardsEndWithTheirLease(t *testing.T) {
	inGroup(t, func(t *testing.T, g *sharing) {
		a, _ := g.join("a", electorhttp.Config{})
		until(t, "a owns all", 2*lease, func() bool { return len(owning(t, a, "").Owned) == 4 })
		heal := g.s.redis.CutOff("a")
		time.Sleep(lease * 3 / 4)
		if o := owning(t, a, ""); len(o.Owned) > 0 {
			t.Errorf("cut off for three quarters of a lease: %+v", o)
		}
		heal()
	})
}

// The stream begins with what the member owns, and has all of it again after each change.
func TestEventsOfAGroup(t *testing.T) {
	inGroup(t, func(t *testing.T, g *sharing) {
		a, _ := g.join("a", electorhttp.Config{})
		until(t, "a owns all", 2*lease, func() bool { return g.owned("a") == 4 })
		ctx, cancel := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", http.NoBody))
		}()
		time.Sleep(time.Second)
		_, leave := g.join("b", electorhttp.Config{})
		until(t, "b owns two", lease, func() bool { return g.owned("b") == 2 })
		leave()
		until(t, "a owns all", lease, func() bool { return g.owned("a") == 4 })
		time.Sleep(lease)
		cancel()
		<-done
		var counts []int
		for line := range strings.Lines(w.Body.String()) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var o electorhttp.Ownership
				if err := json.Unmarshal([]byte(data), &o); err != nil {
					t.Fatal(err)
				}
				counts = append(counts, len(o.Owned))
			}
		}
		lowest := 4
		for _, n := range counts {
			lowest = min(lowest, n)
		}
		if len(counts) < 3 || len(counts) > 6 || counts[0] != 4 || counts[len(counts)-1] != 4 || lowest != 2 || !strings.Contains(w.Body.String(), ": still here") {
			t.Errorf("the events have %v shards:\n%s", counts, w.Body)
		}
	})
}

func TestBadRequestsToAGroup(t *testing.T) {
	inGroup(t, func(t *testing.T, g *sharing) {
		a, _ := g.join("a", electorhttp.Config{MaxStreams: 1})
		for request, want := range map[string]int{
			"GET /shards/4": 400, "GET /shards/-1": 400, "GET /shards/x": 400, "GET /owner": 400, "GET /shards?worker=short": 400,
			"GET /shards?valid_for_ms=-1": 400, "POST /stopped?worker=worker-1&shard=9&token=1": 409, "POST /stopped?worker=worker-1&token=1": 400,
			"POST /stopped?worker=worker-1&shard=1": 400, "POST /shards": 405, "GET /leader": 404, "GET /": 200, "GET /live": 200, "HEAD /shards": 200,
		} {
			method, path, _ := strings.Cut(request, " ")
			if w := ask(a, method, path); w.Code != want {
				t.Errorf("%s: %d %s, want %d", request, w.Code, w.Body, want)
			}
		}
		if w := ask(a, http.MethodGet, "/leader"); !strings.Contains(w.Body.String(), "orders is a group of shards: GET /shards has") {
			t.Errorf("a program for one election is not led on: %s", w.Body)
		}
		if w := ask(a, http.MethodGet, "/"); !strings.Contains(w.Body.String(), "?worker=NAME&shard=N&token=TOKEN") {
			t.Errorf("an address that nobody can paste: %s", w.Body)
		}
	})
	if _, err := electorhttp.NewGroup(nil, electorhttp.Config{}); err == nil {
		t.Error("no member, and no error")
	}
}

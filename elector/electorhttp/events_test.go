package electorhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// said is one event of a stream, or a comment.
type received struct {
	id, name, comment string
	event             elector.Event
}

// listen reads a stream through a pipe, without a network: in virtual time.
func listen(t *testing.T, h http.Handler, lastID string) (<-chan received, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	all := make(chan received, 1000)
	var wg sync.WaitGroup
	wg.Go(func() {
		h.ServeHTTP(pipeWriter{w, http.Header{}}, req)
		w.Close()
	})
	wg.Go(func() { defer close(all); parse(r, all) })
	t.Cleanup(func() { cancel(); r.Close(); wg.Wait() })
	return all, cancel
}

func parse(r io.Reader, all chan<- received) {
	var s received
	for lines := bufio.NewScanner(r); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "id":
			s.id = value
		case name == "event":
			s.name = value
		case name == "data":
			if json.Unmarshal([]byte(value), &s.event) != nil {
				s.comment = "unreadable: " + value
			}
		case name == "" && value != "":
			s.comment = value
		case lines.Text() == "" && s != (received{}):
			all <- s
			s = received{}
		}
	}
}

type pipeWriter struct {
	*io.PipeWriter
	header http.Header
}

func (w pipeWriter) Header() http.Header { return w.header }
func (w pipeWriter) WriteHeader(int)     {}
func (w pipeWriter) Flush()              {}

// next is the next event that is no comment.
func next(t *testing.T, all <-chan received, want elector.EventKind, who string) received {
	t.Helper()
	for limit := time.After(3 * lease); ; {
		select {
		case s, ok := <-all:
			if ok && s.comment != "" {
				continue
			}
			if !ok || s.name != string(want) || s.event.Kind != want || s.event.Candidate != who || s.id == "" {
				t.Fatalf("%+v (%v), want %s of %q", s, ok, want, who)
			}
			return s
		case <-limit:
			t.Fatalf("no event: want %s of %q", want, who)
		}
	}
}

func TestEvents(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a, h := s.start("a", electorhttp.Config{})
		until(t, "a leads", 2*lease, a.IsLeader)
		time.Sleep(time.Second)
		all, leave := listen(t, h, "")
		first := next(t, all, elector.EventElected, "a") // how things stand
		beat := <-all
		if beat.comment == "" {
			t.Errorf("in quiet times: %+v", beat)
		}
		go func() { _ = a.Resign(context.Background()) }()
		stopping := next(t, all, elector.EventStopping, "a")
		if stopping.event.Reason != elector.ReasonResigned || stopping.event.Token != first.event.Token {
			t.Errorf("%+v", stopping)
		}
		leave()

		// What was missed while it was away, and once only.
		time.Sleep(time.Second)
		all, leave = listen(t, h, stopping.id)
		next(t, all, elector.EventReleased, "a")
		again := next(t, all, elector.EventElected, "a") // after the cool-down
		if again.event.Token <= first.event.Token {
			t.Errorf("%+v after %+v", again, first)
		}
		leave()

		// An id of another process, of the future, of nobody: how things stand.
		number := stopping.id[strings.LastIndex(stopping.id, "-")+1:]
		for _, id := range []string{"OTHER-" + number, strings.TrimSuffix(stopping.id, number) + "99", "nonsense", "-1"} {
			all, leave = listen(t, h, id)
			if got := next(t, all, elector.EventElected, "a"); got.event.Token != again.event.Token {
				t.Errorf("with %q: %+v", id, got)
			}
			leave()
		}
	})
}

// A leader whose Redis hangs is told at once that it must stop, also while the
// observer waits for that Redis.
func TestStoppingIsReportedAtOnce(t *testing.T) {
	for phase := time.Duration(0); phase < lease; phase += lease / 20 {
		bubble(t, func(t *testing.T, s *stage) {
			a, h := s.start("a", electorhttp.Config{})
			until(t, "a leads", 2*lease, a.IsLeader)
			all, _ := listen(t, h, "")
			next(t, all, elector.EventElected, "a")
			time.Sleep(phase)
			term := a.Term()
			s.redis.CutOff()
			<-term.Done()
			at := time.Now()
			if got := next(t, all, elector.EventStopping, "a"); got.event.Reason != elector.ReasonExpired || time.Since(at) > time.Millisecond {
				t.Errorf("%v later: %+v", time.Since(at), got)
			}
		})
	}
}

// A client that was away for too long is told how much it missed.
func TestEventsSkipped(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a, h := s.start("a", electorhttp.Config{})
		until(t, "a leads", 2*lease, a.IsLeader)
		all, leave := listen(t, h, "")
		first := next(t, all, elector.EventElected, "a")
		leave()
		for range 100 { // three events each
			if err := a.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			until(t, "a leads again", 2*lease, a.IsLeader)
		}
		time.Sleep(time.Second)
		all, _ = listen(t, h, first.id)
		skipped := <-all
		if skipped.name != "skipped" || skipped.event.Count != 300-256 {
			t.Errorf("%+v", skipped)
		}
		n, last := 0, ""
		for s := range all {
			if s.comment != "" {
				break
			}
			n, last = n+1, s.id
		}
		if n != 256 {
			t.Errorf("%d events, want 256", n)
		}
		if s := <-all; s.comment == "" {
			t.Errorf("sent again: %+v", s)
		}
		all, _ = listen(t, h, last) // what was skipped has numbers, too
		if s := <-all; s.comment == "" {
			t.Errorf("after the newest event: %+v", s)
		}
	})
}

func TestStreamsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a, h := s.start("a", electorhttp.Config{MaxStreams: 2})
		until(t, "a leads", 2*lease, a.IsLeader)
		one, leave := listen(t, h, "")
		next(t, one, elector.EventElected, "a")
		two, _ := listen(t, h, "")
		next(t, two, elector.EventElected, "a")
		if w := ask(h, http.MethodGet, "/events"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("a third stream: %d", w.Code)
		}
		leave()
		for range one { // until it has ended
		}
		three, _ := listen(t, h, "")
		next(t, three, elector.EventElected, "a")
	})
	bubble(t, func(t *testing.T, s *stage) {
		h, err := electorhttp.New(s.candidate("a"), electorhttp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if w := ask(h, http.MethodGet, "/events"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("without Run: %d", w.Code)
		}
	})
}

// A stream ends with its client also where only the write shows that it has gone.
func TestStreamEndsWithItsClient(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a, h := s.start("a", electorhttp.Config{})
		until(t, "a leads", 2*lease, a.IsLeader)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		r, w := io.Pipe()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/events", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Second)
			r.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, r) }()
		began := time.Now()
		h.ServeHTTP(pipeWriter{w, http.Header{}}, req)
		if took := time.Since(began); took > time.Second+lease/4 {
			t.Errorf("ended after %v", took)
		}
	})
}

// What a browser and a proxy need to know of a stream is known from its first bytes on;
// HEAD gets these, and no stream.
func TestStreamBegins(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a, h := s.start("a", electorhttp.Config{})
		until(t, "a leads", 2*lease, a.IsLeader)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		began, w := time.Now(), httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodHead, "/events", http.NoBody))
		if time.Since(began) > 0 {
			t.Errorf("HEAD takes %v", time.Since(began))
		}
		head := w.Header()
		if w.Body.String() != "retry: 1000\n\n" || head.Get("Content-Type") != "text/event-stream" || head.Get("X-Accel-Buffering") != "no" ||
			head.Get("Cache-Control") != "no-store" || head.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q, %v", w.Body, head)
		}
	})
}

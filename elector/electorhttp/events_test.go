package electorhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// received is one event of a stream, or a comment.
type received struct {
	name, comment string
	event         elector.Event
}

// listen reads a stream through a pipe, without a network: in virtual time.
func listen(t *testing.T, h http.Handler) <-chan received {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "/events", http.NoBody)
	must(t, err)
	all := make(chan received, 1000)
	var wg sync.WaitGroup
	wg.Go(func() {
		h.ServeHTTP(pipeWriter{w, http.Header{}}, req)
		w.Close()
	})
	wg.Go(func() { defer close(all); parse(r, all) })
	t.Cleanup(func() { cancel(); r.Close(); wg.Wait() })
	return all
}

func parse(r io.Reader, all chan<- received) {
	var s received
	for lines := bufio.NewScanner(r); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
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
func next(t *testing.T, all <-chan received, want string, who string) received {
	t.Helper()
	for limit := time.After(3 * lease); ; {
		select {
		case s, ok := <-all:
			if ok && s.comment != "" {
				continue
			}
			if !ok || s.name != want || s.event.Kind != want || s.event.Candidate != who {
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
		a, h := s.startLeader(electorhttp.Config{})
		time.Sleep(time.Second)
		all := listen(t, h)
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
		next(t, all, elector.EventReleased, "a")
		again := next(t, all, elector.EventElected, "a") // after the cool-down
		if again.event.Token <= first.event.Token {
			t.Errorf("%+v after %+v", again, first)
		}
	})
}

// A leader whose Redis hangs is told at once that it must stop, also while the
// observer waits for that Redis.
func TestStoppingIsReportedAtOnce(t *testing.T) {
	for phase := time.Duration(0); phase < lease; phase += lease / 5 {
		bubble(t, func(t *testing.T, s *stage) {
			a, h := s.startLeader(electorhttp.Config{})
			all := listen(t, h)
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

func TestStreamsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		_, h := s.startLeader(electorhttp.Config{})
		for range 64 {
			next(t, listen(t, h), elector.EventElected, "a")
		}
		if w := ask(h, http.MethodGet, "/events"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "64 streams") {
			t.Errorf("a 65th stream: %d %s", w.Code, w.Body)
		}
	})
	bubble(t, func(t *testing.T, s *stage) {
		h, err := electorhttp.New(s.candidate("a"), electorhttp.Config{})
		must(t, err)
		if w := ask(h, http.MethodGet, "/events"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("without Run: %d", w.Code)
		}
	})
}

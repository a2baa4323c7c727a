package electorhttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// said is one event of a stream, or a comment.
type said struct {
	id, name, comment string
	event             elector.Event
}

// listen reads a stream through a pipe, without a network: in virtual time.
func listen(t *testing.T, h http.Handler, lastID string) (<-chan said, context.CancelFunc) {
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
	all := make(chan said, 1000)
	var wg sync.WaitGroup
	wg.Go(func() {
		h.ServeHTTP(pipeWriter{w, http.Header{}}, req)
		w.Close()
	})
	wg.Go(func() { defer close(all); parse(r, all) })
	t.Cleanup(func() { cancel(); r.Close(); wg.Wait() })
	return all, cancel
}

func parse(r io.Reader, all chan<- said) {
	var s said
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
		case lines.Text() == "" && s != (said{}):
			all <- s
			s = said{}
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
func next(t *testing.T, all <-chan said, want elector.Kind, who string) said {
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
		first := next(t, all, elector.Elected, "a") // how things stand
		beat := <-all
		if beat.comment == "" {
			t.Errorf("in quiet times: %+v", beat)
		}
		go func() { _ = a.Resign(context.Background()) }()
		stopping := next(t, all, elector.Stopping, "a")
		if stopping.event.Reason != elector.ReasonResigned || stopping.event.Token != first.event.Token {
			t.Errorf("%+v", stopping)
		}
		leave()

		// What was missed while it was away, and once only.
		time.Sleep(time.Second)
		all, leave = listen(t, h, stopping.id)
		next(t, all, elector.Released, "a")
		again := next(t, all, elector.Elected, "a") // after the cool-down
		if again.event.Token <= first.event.Token {
			t.Errorf("%+v after %+v", again, first)
		}
		leave()

		// An id of another process, of the future, of nobody: how things stand.
		number := stopping.id[strings.LastIndex(stopping.id, "-")+1:]
		for _, id := range []string{"OTHER-" + number, strings.TrimSuffix(stopping.id, number) + "99", "nonsense", "-1"} {
			all, leave = listen(t, h, id)
			if got := next(t, all, elector.Elected, "a"); got.event.Token != again.event.Token {
				t.Errorf("with %q: %+v", id, got)
			}
			leave()
		}
	})
}

// A leader whose Redis hangs is told at once that it must stop, also while the
// observer waits for that Redis.
func TestStoppingIsToldAtOnce(t *testing.T) {
	for phase := time.Duration(0); phase < lease; phase += lease / 20 {
		bubble(t, func(t *testing.T, s *stage) {
			a, h := s.start("a", electorhttp.Config{})
			until(t, "a leads", 2*lease, a.IsLeader)
			all, _ := listen(t, h, "")
			next(t, all, elector.Elected, "a")
			time.Sleep(phase)
			term := a.Term()
			s.hang()
			<-term.Done()
			at := time.Now()
			if got := next(t, all, elector.Stopping, "a"); got.event.Reason != elector.ReasonExpired || time.Since(at) > time.Millisecond {
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
		first := next(t, all, elector.Elected, "a")
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
		n := 0
		for s := range all {
			if s.comment != "" {
				break
			}
			n++
		}
		if n != 256 {
			t.Errorf("%d events, want 256", n)
		}
	})
}

func TestStreamsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		a, h := s.start("a", electorhttp.Config{MaxStreams: 2})
		until(t, "a leads", 2*lease, a.IsLeader)
		one, leave := listen(t, h, "")
		next(t, one, elector.Elected, "a")
		two, _ := listen(t, h, "")
		next(t, two, elector.Elected, "a")
		if w := ask(h, http.MethodGet, "/events"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("a third stream: %d", w.Code)
		}
		leave()
		for range one { // until it has ended
		}
		three, _ := listen(t, h, "")
		next(t, three, elector.Elected, "a")
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

// pipeNet is a listener for connections in memory.
type pipeNet struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipeNet) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipeNet) Addr() net.Addr { return &net.TCPAddr{} }

// The real server, in virtual time: a stream outlives its time-outs, a client
// that stands still is cut off, as is one that never ends its request; and the
// end of Serve ends what is under way.
func TestServerBounds(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		e := s.candidate("a")
		h, err := electorhttp.New(e, electorhttp.Config{Heartbeat: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		l := &pipeNet{conns: make(chan net.Conn), done: make(chan struct{})}
		ctx, cancel := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- h.Serve(ctx, l) }()
		t.Cleanup(cancel)
		dial := func(request string) net.Conn {
			client, server := net.Pipe() // without a buffer: who does not read holds the writer
			l.conns <- server
			go func() { _, _ = io.WriteString(client, request) }()
			t.Cleanup(func() { client.Close() })
			return client
		}
		lasts := func(c net.Conn) time.Duration {
			began := time.Now()
			_, _ = io.Copy(io.Discard, c)
			return time.Since(began)
		}
		const get = "GET /events HTTP/1.1\r\nHost: x\r\n\r\n"
		steady := dial(get)
		go func() { time.Sleep(5 * time.Minute); steady.Close() }()
		if d := lasts(steady); d < 5*time.Minute {
			t.Errorf("a stream that is read ended after %v", d)
		}
		still := dial(get)
		time.Sleep(time.Minute)
		if _, err := io.Copy(io.Discard, still); err != nil { // not a time-out of ours: the server has closed it
			t.Errorf("a stream that nobody reads is still there: %v", err)
		}
		if d := lasts(dial("GET /leader HTTP/1.1\r\nHost: x\r\n")); d > 20*time.Second {
			t.Errorf("an unfinished request was kept for %v", d)
		}
		large := dial("GET /leader HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 32<<10) + "\r\n\r\n")
		if line, _ := bufio.NewReader(large).ReadString('\n'); !strings.Contains(line, "431") {
			t.Errorf("large headers: %q", line)
		}
		body := dial(fmt.Sprintf("POST /leader HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 1<<20, strings.Repeat("x", 1<<20)))
		if line, _ := bufio.NewReader(body).ReadString('\n'); !strings.Contains(line, "405") {
			t.Errorf("a large body: %q", line)
		}
		last := dial(get)
		time.Sleep(3 * time.Second)
		cancel()
		lasts(last)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

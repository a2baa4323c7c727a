package electorhttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// pipeNet is a listener for connections in memory.
type pipeNet struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.TCPAddr // which it pretends to have
}

func newPipeNet() *pipeNet { return &pipeNet{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipeNet) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipeNet) Addr() net.Addr { return &p.addr }

// serve runs the server until end, or the end of the bubble.
func (s *stage) serve(h *electorhttp.Handler, l net.Listener) (end func()) {
	return s.begin(func(ctx context.Context) {
		if err := h.Serve(ctx, l); err != nil {
			s.t.Error(err)
		}
	})
}

// The real server, in virtual time: a stream outlives its time-outs, a client
// that stands still is cut off, as is one that never ends its request; and the
// end of Serve ends what is under way.
func TestServerBounds(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		h, err := electorhttp.New(s.candidate("a"), electorhttp.Config{})
		must(t, err)
		l := newPipeNet()
		end := s.serve(h, l)
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
		go end()
		lasts(last)
	})
}

// A web site that points its own name at a loopback server reads nothing there. On an address that others reach
// names are free. Addresses always serve, as does a request without a name.
func TestForeignNames(t *testing.T) {
	for listen, wants := range map[string]map[string]int{
		"127.0.0.1": {"localhost:1": 200, "127.0.0.1:1": 200, "[::1]": 200, "": 200, "evil.example": 421, "localhost.evil.example": 421},
		"::1":       {"localhost": 200, "evil.example": 421},
		"0.0.0.0":   {"10.1.2.3:80": 200, "poller.example": 200},
	} {
		t.Run(listen, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				var log strings.Builder
				h, err := electorhttp.New(s.candidate("a"), electorhttp.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
				must(t, err)
				l := newPipeNet()
				l.addr.IP = net.ParseIP(listen)
				end := s.serve(h, l)
				for host, want := range wants {
					client, server := net.Pipe()
					l.conns <- server
					go func() {
						_, _ = io.WriteString(client, "GET /live HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
					}()
					if line, _ := bufio.NewReader(client).ReadString('\n'); !strings.Contains(line, fmt.Sprint(want)) {
						t.Errorf("Host %q: %q, want %d", host, line, want)
					}
					client.Close()
				}
				end()
				if logged := strings.Contains(log.String(), "foreign host name refused"); logged != (wants["evil.example"] == 421) {
					t.Errorf("logged: %q", log.String())
				}
			})
		})
	}
}

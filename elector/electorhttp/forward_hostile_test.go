package electorhttp_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// raw sends a request as it is written here, with \n as the end of a line, and reads nothing.
func (f *fleet) raw(to, request string) net.Conn {
	c, err := f.dial(context.Background(), "", to+":80")
	must(f.t, err)
	f.t.Cleanup(func() { _ = c.Close() })
	go func() { _, _ = io.WriteString(c, strings.ReplaceAll(request, "\n", "\r\n")) }()
	return c
}

// answer reads the answer to a request of raw.
func (f *fleet) answer(c net.Conn) (*http.Response, string) {
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(f.t, err)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return resp, string(body)
}

// These apps heed no context.
func reads(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) }

func writes(w http.ResponseWriter, _ *http.Request) {
	w.(http.Flusher).Flush()
	time.Sleep(time.Millisecond) // a follower's ReverseProxy flushes this on another goroutine
	piece := make([]byte, 1<<16)
	for range 200 << 20 / len(piece) {
		if _, err := w.Write(piece); err != nil {
			return
		}
	}
}

// insists gives itself time again and again.
func insists(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	for err := error(nil); err == nil; {
		_ = control.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_ = control.SetWriteDeadline(time.Now().Add(time.Hour))
		if _, err = r.Body.Read(make([]byte, 1)); err != nil && strings.Contains(err.Error(), "timeout") {
			err = nil
		}
	}
}

func echoes(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex()
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	for {
		b := make([]byte, 1)
		if _, err := r.Body.Read(b); err != nil {
			return
		}
		if _, err := w.Write(b); err != nil {
			return
		}
		w.(http.Flusher).Flush()
	}
}

const half = "POST / HTTP/1.1\nHost: x\nContent-Length: 100\n\nhalf"

var hostile = map[string]struct {
	request string
	app     http.HandlerFunc
	trickle bool  // a byte each second
	reads   int64 // bytes of the answer
}{
	"half a body":                        {half, reads, false, 0},
	"half a body, of which none is read": {half, writes, false, 0},
	"half a body, and deadlines":         {half, insists, false, 0},
	"a body in pieces without an end":    {"POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n4\nhalf\n", reads, false, 0},
	"half a piece of a body":             {"POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n40\nhalf", reads, false, 0},
	"half a trailer":                     {"POST / HTTP/1.1\nHost: x\nTrailer: X\nTransfer-Encoding: chunked\n\n0\nX", reads, false, 0},
	"a byte each second":                 {half, reads, true, 0},
	"a byte each second, echoed":         {half, echoes, true, 1 << 40},
	"Expect without a body":              {"POST / HTTP/1.1\nHost: x\nExpect: 100-continue\nContent-Length: 100\n\n", reads, false, 1 << 10}, // read, since the proxy waits for its write by a mutex, which stalls virtual time
	"an answer that is not read":         {"GET / HTTP/1.1\nHost: x\n\n", writes, false, 1 << 18},
	"answers that are not read":          {"GET / HTTP/1.1\nHost: x\n\nGET / HTTP/1.1\nHost: x\n\nPOST / HTTP/1.1\nHost: x\n\n", writes, false, 1 << 18},
	"HTTP/1.0":                           {"POST / HTTP/1.0\nContent-Length: 100\n\nhalf", reads, false, 0},
}

// No client holds a term, or a replica: those that send half a request to each replica, or do not read, and
// an app that heeds no context.
func TestForwardHostileClients(t *testing.T) {
	for name, h := range hostile {
		for _, via := range []string{"a", "b"} {
			if h.reads == 1<<40 && via == "b" {
				continue // net/http's server, and so a follower, answers after the request
			}
			t.Run(name+", by "+via, func(t *testing.T) {
				forwards(t, func(t *testing.T, f *fleet) {
					f.isHeld(via, h.app, func(to string) {
						c := f.raw(to, h.request)
						go func() { _, _ = io.CopyN(io.Discard, c, h.reads) }()
						if h.trickle {
							go func() {
								for err := error(nil); err == nil; time.Sleep(time.Second) {
									_, err = io.WriteString(c, "x")
								}
							}()
						}
					})
				})
			})
		}
	}
}

// isHeld lets attack hold the app of the leader, by way of the leader (a) or the follower (b), and wants the
// other replica to lead soon after the leader resigns; the same again with that one.
func (f *fleet) isHeld(via string, app http.HandlerFunc, attack func(to string)) {
	f.t.Helper()
	began := make(chan struct{}, 100)
	var running atomic.Int32
	a, b := f.pair(func(c *elector.Config) {
		c.OnOverrun = func(*elector.Term) { f.t.Errorf("%s: overrun", c.ID) }
		if f.tls != nil {
			c.Advertise = "https://" + c.ID
		}
	})
	holds := func(w http.ResponseWriter, req *http.Request) {
		running.Add(1)
		defer running.Add(-1)
		began <- struct{}{}
		app(w, req)
	}
	a.app, b.app = holds, holds
	leader, next := a, b
	for range 2 {
		attack(map[string]string{"a": leader.id, "b": next.id}[via])
		<-began
		time.Sleep(time.Second) // it hangs
		at := time.Now()
		leader.Term().Resign()
		until(f.t, lease, "the next leads", next.IsLeader)
		if took := time.Since(at); took > lease/4+lease/32 {
			f.t.Errorf("%s leads %v after %s has resigned", next.ID(), took, leader.ID())
		}
		if n := running.Load(); n > 0 {
			f.t.Errorf("%d requests are under way at %s while %s leads", n, leader.ID(), next.ID())
		}
		time.Sleep(2 * lease) // the cool-down
		if err := leader.Check(); err != nil {
			f.t.Errorf("%s: %v", leader.ID(), err)
		}
		leader, next = next, leader
	}
	at := time.Now()
	a.stop()
	if took := time.Since(at); took > 15*time.Second {
		f.t.Errorf("Forward ends %v after its context", took)
	}
}

// rawTLS is raw over TLS 1.2, in which the server sends nothing after the handshake.
func (f *fleet) rawTLS(to, request string) {
	c := tls.Client(f.raw(to, ""), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if _, err := io.WriteString(c, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		f.t.Fatal(err)
	}
}

// stalled is a connection whose client stops reading.
type stalled struct {
	net.Conn
	after *atomic.Int64 // bytes
	over  <-chan struct{}
}

func (s stalled) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if s.after.Add(-int64(n)) < 0 {
		<-s.over
	}
	return n, err
}

// useTLS has those that start serve TLS, with HTTP/2.
func (f *fleet) useTLS() {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	f.tls = &tls.Config{Certificates: server.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
}

// The same over TLS: by HTTP/2, where a stream that hangs shares its connection, and by a client that does not
// take a last message either.
func TestForwardHostileTLS(t *testing.T) {
	for name, c := range map[string]struct {
		app    http.HandlerFunc
		method string
		after  int64 // bytes until the client does not read its connection
	}{
		"half a body":                        {reads, http.MethodPost, 1 << 40},
		"an answer that is not read":         {writes, http.MethodGet, 1 << 40},
		"a connection that is not read":      {writes, http.MethodGet, 1 << 14},
		"half a body, of which none is read": {writes, http.MethodPost, 1 << 40},
		"HTTP/1.1":                           {reads, "", 0},
	} {
		for _, via := range []string{"a", "b"} {
			if c.method == "" && via == "b" {
				continue // followers use HTTP/2
			}
			t.Run(name+", by "+via, func(t *testing.T) {
				forwards(t, func(t *testing.T, f *fleet) {
					f.useTLS()
					f.isHeld(via, func(w http.ResponseWriter, r *http.Request) {
						if r.ProtoMajor == 2 == (c.method == "") {
							t.Errorf("%s %s", r.Method, r.Proto)
						}
						c.app(w, r)
					}, func(to string) {
						if c.method == "" {
							f.rawTLS(to, half)
							return
						}
						after, over := &atomic.Int64{}, make(chan struct{})
						t.Cleanup(func() { close(over) })
						after.Store(c.after)
						transport := f.transport()
						transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
							c, err := f.dial(ctx, network, addr)
							return stalled{c, after, over}, err
						}
						t.Cleanup(transport.CloseIdleConnections)
						body, w := io.Pipe()
						t.Cleanup(func() { _ = w.Close() })
						r, err := http.NewRequestWithContext(t.Context(), c.method, "https://"+to, http.NoBody)
						must(t, err)
						if c.method == http.MethodPost {
							r.Body, r.ContentLength = body, -1
							go func() { _, _ = io.WriteString(w, "half") }()
						}
						go func() {
							if resp, err := transport.RoundTrip(r); err == nil {
								t.Cleanup(func() { _ = resp.Body.Close() })
							}
						}()
					})
				})
			})
		}
	}
}

// An app that heeds its context can still answer when it has ended.
func TestForwardAnswersAtTheEnd(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		a, _ := f.pair()
		began := make(chan struct{}, 2)
		a.app = func(w http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			<-r.Context().Done()
			http.Error(w, "stopped", http.StatusConflict)
		}
		for _, to := range []string{"a", "b"} {
			c := f.raw(to, "GET / HTTP/1.1\nHost: x\n\n")
			defer func() {
				if resp, body := f.answer(c); resp.StatusCode != http.StatusConflict || body != "stopped\n" {
					t.Errorf("by %s: %d %s", to, resp.StatusCode, body)
				}
			}()
			<-began
		}
		a.Term().Resign()
	})
}

// A connection that the app had would outlive the term: there is no way to one.
func TestForwardRefusesUpgrades(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		a, _ := f.pair()
		apps := 0
		a.app = func(w http.ResponseWriter, r *http.Request) {
			apps++
			if _, ok := w.(http.Hijacker); ok {
				t.Error("the app finds a Hijacker")
			}
			if _, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
				t.Error("the app finds another ResponseWriter")
			}
			if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
				t.Error("the app has hijacked the connection")
			}
			if r.Header.Get("Upgrade")+r.Header.Get("Connection") != "" {
				t.Errorf("the app has got %v", r.Header)
			}
			if r.URL.Path == "/101" { // a follower must not make a tunnel of it
				w.WriteHeader(http.StatusSwitchingProtocols)
			}
		}
		for _, to := range []string{"a", "b"} {
			apps = 0
			for _, request := range []string{
				"GET / HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Key: x\n\n",
				"GET / HTTP/1.1\nHost: x\nConnection: keep-alive, upgrade\nUPGRADE: h2c, WebSocket\n\n",
				"GET / HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: h2c\nUpgrade: websocket\n\n",
				"POST / HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: tcp\nContent-Length: 0\n\n",
				"CONNECT x:80 HTTP/1.1\nHost: x\n\n",
			} {
				if resp, body := f.answer(f.raw(to, request)); resp.StatusCode != http.StatusNotImplemented || !strings.Contains(body, "upgrades") || apps > 0 {
					t.Errorf("%s, %q: %d %s; the app was called %d times", to, request, resp.StatusCode, body, apps)
				}
			}
			offer := "GET / HTTP/1.1\nHost: x\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAAP__\n\n"
			if resp, body := f.answer(f.raw(to, offer)); resp.StatusCode != http.StatusOK || apps != 1 {
				t.Errorf("%s, an offer that may be ignored: %d %s", to, resp.StatusCode, body)
			}
		}
		if resp, body := f.answer(f.raw("b", "GET /101 HTTP/1.1\nHost: x\n\n")); resp.StatusCode != http.StatusBadGateway {
			t.Errorf("an app that switches protocols without being asked: %d %s", resp.StatusCode, body)
		}
	})
}

// A request is sent once, also where net/http would send it again: when a connection that was kept ends
// before the answer.
func TestForwardRepeatsNothing(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		var got []*http.Request
		f.leadsAt(func(c net.Conn) {
			defer c.Close()
			for in := bufio.NewReader(c); ; {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				if r.URL.Path != "/first" { // it takes the request, and dies
					got = append(got, r)
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		})
		f.start("b")
		time.Sleep(lease)
		for _, c := range []struct{ method, key, body string }{
			{"GET", "", ""}, {"HEAD", "", ""}, {"OPTIONS", "", ""}, {"TRACE", "", ""}, {"DELETE", "", ""}, {"PUT", "", ""}, {"POST", "", ""},
			{"GET", "", "body"}, {"DELETE", "", "body"}, {"POST", "", "body"},
			{"POST", "Idempotency-Key", ""}, {"PUT", "Idempotency-Key", ""}, {"DELETE", "X-Idempotency-Key", ""}, {"POST", "X-Idempotency-Key", "body"},
		} {
			got = nil
			if resp, body, err := f.do("b", "GET", "/first", ""); err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%v %+v %s", err, resp, body)
			}
			resp, body, err := f.do("b", c.method, "/", c.body, cmp.Or(c.key, "X-Other"), "k")
			if err != nil || resp.StatusCode != http.StatusBadGateway || len(got) != 1 {
				t.Errorf("%v: sent %d times; %v %+v %s", c, len(got), err, resp, body)
				continue
			}
			if r := got[0]; r.ContentLength != int64(len(c.body)) || r.TransferEncoding != nil {
				t.Errorf("%v: sent with the length %d and %v", c, r.ContentLength, r.TransferEncoding)
			}
		}
	})
}

// roundTripper is a transport.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The token reaches the program that works, also behind an app that is a proxy: a client that names it in
// Connection does not remove it there.
func TestForwardTokenAtTheNextHop(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		a, _ := f.pair()
		var got []string
		proxy := &httputil.ReverseProxy{
			Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(&url.URL{Scheme: "http", Host: "program"}) },
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				got = r.Header["Mandate-Token"]
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}),
		}
		a.app = proxy.ServeHTTP
		for _, to := range []string{"a", "b"} {
			for _, connection := range []string{"Mandate-Token", "close, MANDATE-TOKEN", "x\nconnection: mandate-token", "Upgrade, mandate-token\nUpgrade: h2c"} {
				got = nil
				f.answer(f.raw(to, "GET / HTTP/1.1\nHost: x\nConnection: "+connection+"\nMandate-Token: 1\n\n"))
				if want := fmt.Sprint(a.Term().Token()); len(got) != 1 || got[0] != want {
					t.Errorf("by %s, Connection: %q: the program has the token %v, want %s", to, connection, got, want)
				}
			}
		}
	})
}

// Trailers of a request reach the app, but for those with our names, announced or not.
func TestForwardRequestTrailers(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		f.cfg.Local = func(r *http.Request) bool { return r.URL.Path == "/local" }
		a, b := f.pair()
		a.app = func(w http.ResponseWriter, r *http.Request) {
			announced, body, err := len(r.Trailer), []byte(nil), error(nil)
			if r.URL.Path == "/close" { // which reads on to the trailers
				err = r.Body.Close()
			} else {
				body, err = io.ReadAll(r.Body)
			}
			fmt.Fprintln(w, announced, string(body), err, r.Trailer)
		}
		b.app = a.app
		const ours = "Mandate-Token: 9007199254740990\nMandate_Leader: x\nX-Sum: 7"
		for _, to := range []string{"a", "b"} {
			for head, want := range map[string]string{
				"POST / HTTP/1.1\nTrailer: X-Sum, Mandate-Token": "1 body <nil> map[X-Sum:[7]]",
				"POST / HTTP/1.1":     "0 body <nil> map[]",
				"GET /local HTTP/1.1": "0 body <nil> map[]",
				"GET /local HTTP/1.1\nTrailer: Mandate-Token, X-Sum":  "1 body <nil> map[X-Sum:[7]]",
				"POST /close HTTP/1.1\nTrailer: Mandate-Token, X-Sum": "1  <nil> map[X-Sum:[7]]",
			} {
				_, got := f.answer(f.raw(to, head+"\nHost: x\nTransfer-Encoding: chunked\n\n4\nbody\n0\n"+ours+"\n\n"))
				if got != want+"\n" {
					t.Errorf("%q: by %s the app has got %q, want %q", head, to, got, want)
				}
			}
		}
	})
}

// A client that sends half a body by HTTP/2 does not end, with the term, what a load balancer sends on the same connection.
func TestForwardCutsOneStream(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		f.useTLS()
		f.cfg.Local = func(*http.Request) bool { return true }
		began, resume := make(chan struct{}, 1), make(chan struct{})
		a := f.lead()
		a.app = func(w http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			if reads(w, r); r.Method == http.MethodGet {
				<-resume
			}
		}
		transport, conns := f.transport(), len(a.conns)
		t.Cleanup(transport.CloseIdleConnections)
		send := func(method string, body io.Reader) <-chan error {
			answer := make(chan error, 1)
			go func() {
				r, _ := http.NewRequestWithContext(t.Context(), method, "https://a", body)
				_, err := transport.RoundTrip(r)
				answer <- err
			}()
			<-began
			return answer
		}
		half, w := io.Pipe()
		defer w.Close()
		other, stuck := send(http.MethodGet, http.NoBody), send(http.MethodPost, half)
		a.Term().Resign()
		if err := <-stuck; err == nil {
			t.Error("half a body is answered")
		}
		until(t, lease, "the term is over", func() bool { return a.Term() == nil })
		time.Sleep(lease / 10)
		close(resume)
		if err := <-other; err != nil || len(a.conns) != conns+1 {
			t.Errorf("another request on %d connections: %v", len(a.conns)-conns, err)
		}
	})
}

// A replica that the others could not reach does not start, nor one with a duration that lacks its unit.
func TestForwardNeedsAnAddress(t *testing.T) {
	want := map[string]string{"http://10.0.0.7:8080": "Finish is 5ns: give at least 1ms"}
	for _, address := range []string{"http://10.0.0.7:8080", "", "10.0.0.7:8080", "10.0.0.7", ":8080", "http://:8080", "ftp://a", "http://", "/a", "%"} {
		bubble(t, func(t *testing.T, s *stage) {
			e := s.candidate("a", func(c *elector.Config) { c.Advertise = address })
			ctx, cancel := context.WithTimeout(context.Background(), lease)
			defer cancel()
			err := electorhttp.Forward(ctx, e, http.NotFoundHandler(), newPipeNet(), electorhttp.ForwardConfig{Finish: 5})
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), cmp.Or(want[address], "set Config.Advertise to the URL")) {
				t.Errorf("%q: %v", address, err)
			}
		})
	}
}

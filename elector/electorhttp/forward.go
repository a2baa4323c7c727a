package electorhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/setting"
)

// Headers between replicas, and on the app's answers. Of a client's request no header or trailer Mandate-... passes.
const (
	tokenHeader     = "Mandate-Token"     // on the app's answers, and to the app: the token of the term that serves the request
	leaderHeader    = "Mandate-Leader"    // on the app's answers: the candidate that served the request
	forwardedHeader = "Mandate-Forwarded" // the candidate that forwarded the request: it is forwarded once
)

// ForwardConfig configures Forward. The zero value of a field means its default.
type ForwardConfig struct {
	// Finish is how long a request under way may continue after a planned end of the term
	// (Reason.Wanted), before its context ends. It delays the next leader, and must be shorter than
	// Config.DrainTimeout of the candidate, during which the lease is kept. If the lease can't be
	// kept, the context ends a StopMargin before the lease does. After any other end of the term the
	// context ends at once. An app that has not answered 1/64 of the lease later loses the connection to its client
	// (with HTTP/2 only the stream, unless the client does not read the connection), which ends its reads and writes.
	// Default a quarter of the lease; negative: none.
	Finish time.Duration
	// Local chooses, of the GET, HEAD and OPTIONS requests, those that each replica's own app answers,
	// also where no leader is known: without a token and a term (elector.TermOf returns nil), on the
	// leader too, and so perhaps with older data than the leader's. It is called by many goroutines at
	// once. All other methods are executed by the leader. Default: none.
	Local func(*http.Request) bool
	// Transport carries requests to the other replicas. Default: a transport without a proxy that
	// dials for at most a second and waits for an answer for as long as the client does. If it does
	// not report to net/http/httptrace, each failed request counts as sent.
	Transport http.RoundTripper
}

// readMethods are those of which ForwardConfig.Local is asked.
var readMethods = []string{http.MethodGet, http.MethodHead, http.MethodOptions}

// After the end of its last term a replica serves for lingerTime, so that the others learn who leads now, and
// then for at most lastRequests until all requests are answered.
const (
	lingerTime   = time.Second
	lastRequests = 10 * time.Second
)

// Forward is a replica of a service: it runs e, and serves HTTP on l, until ctx ends. Every replica
// takes requests, and only the leader's app executes them: a follower passes them on to the leader,
// but for those that ForwardConfig.Local chooses.
// The Advertise of each replica must be a URL that reaches its listener (http://10.0.0.7:8080). So
// all replicas can stand behind one load balancer and be ready at all times; serve the metrics and the
// health of each replica on another listener. For TLS give it a listener of crypto/tls.
//
//   - The lock is not released before the app has returned (see elector.Gate). What it leaves running, as
//     http.TimeoutHandler does when the request's context ends, may work beside the next leader. That
//     context carries the term (elector.TermOf), and the header Mandate-Token the term's token, which
//     the resource that the app writes to must compare, as with any work. No other header or trailer
//     Mandate-..., also not one written with underscores, reaches the app, nor does Connection, by
//     which a client could remove the token at the next proxy. The app's answers have the headers
//     Mandate-Leader and Mandate-Token.
//   - 503 with Retry-After: no leader executed the request, because none is known or reached, or its
//     term has just ended. The client, or the load balancer, may send it again, whatever its method.
//   - 502: the leader was gone, or another one led, before it had answered, so it is not known whether
//     the request was executed. Forward never sends a request twice.
//   - 501: upgrades (WebSocket) and CONNECT are refused, and the app can't hijack a connection: its
//     messages would be executed after the term. Serve WebSockets on another listener, and close them
//     when the term's context ends.
//   - Requests are forwarded once, so there are no loops. Hop-by-hop headers are removed,
//     X-Forwarded-For is continued, and Host and Forwarded are kept. Streams pass; they end with the term.
//
// When ctx ends, Forward hands the leadership over, forwards requests for one more second, while the
// other replicas learn who leads, and then lets those under way finish for at most 10 s. It closes the
// listener. It returns what Elector.Run has returned, or the error of the listener, which ends Run.
//
// Forward trusts the other replicas: anyone who can write to Redis can name an address to send
// requests to.
func Forward(ctx context.Context, e *elector.Elector, app http.Handler, l net.Listener, cfg ForwardConfig) error {
	if app == nil || l == nil {
		return errors.New("electorhttp: Forward needs an app and a listener")
	}
	h, err := New(e, Config{})
	if err != nil {
		return err
	}
	if _, err = baseURL(e.Advertise()); err != nil {
		return fmt.Errorf("electorhttp: Forward: this candidate %w", err)
	}
	if err := setting.CheckUnit("Finish", cfg.Finish); err != nil {
		return fmt.Errorf("electorhttp: Forward: %w", err)
	}
	cfg.Finish = cmp.Or(cfg.Finish, e.Lease()/4)
	if cfg.Transport == nil {
		transport := &http.Transport{
			DialContext:         (&net.Dialer{Timeout: time.Second, KeepAlive: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 2 * time.Second, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 256, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		}
		defer transport.CloseIdleConnections()
		cfg.Transport = transport
	}
	f := &forwarder{h: h, app: app, cfg: cfg}
	return f.run(ctx, l)
}

// forwarder serves an app on every replica. The app of the leader answers.
type forwarder struct {
	h    *Handler
	gate elector.Gate
	app  http.Handler
	cfg  ForwardConfig
}

// run campaigns until ctx ends, and serves for somewhat longer.
func (f *forwarder) run(ctx context.Context, l net.Listener) error {
	campaigning, stop := context.WithCancel(ctx)
	defer stop()
	following, unfollow := context.WithCancel(context.WithoutCancel(ctx))
	var follow sync.WaitGroup
	follow.Go(func() { _ = f.h.Run(following) }) // it fails only when it is running already
	server := &http.Server{
		Handler: f, ReadHeaderTimeout: readTimeout, IdleTimeout: 2 * time.Minute, ErrorLog: discarded,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- server.Serve(l)
	}()
	var ended time.Time // of the last term
	err := f.h.elector.Run(campaigning, func(ctx context.Context, term *elector.Term) error {
		defer func() { ended = time.Now() }()
		return f.gate.Work(ctx, term)
	})
	select {
	case broken := <-served:
		err = errors.Join(err, broken)
	case <-time.After(time.Until(ended.Add(lingerTime))):
	}
	// Each request whose connection was accepted is answered: Shutdown alone drops one that it finds just read.
	_ = l.Close()
	server.SetKeepAlivesEnabled(false)
	time.Sleep(lingerTime / 10)
	shutdown(server, lastRequests)
	unfollow()
	follow.Wait()
	return err
}

// connKey is the key of the connection (net.Conn) in the context of a request.
type connKey struct{}

// answer is a ResponseWriter without the connection: it has no Hijack, and no Unwrap that leads to one.
type answer struct{ controlled }

// controlled is what else a ResponseWriter of net/http can do, for http.ResponseController.
type controlled interface {
	http.ResponseWriter
	http.Flusher
	FlushError() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	EnableFullDuplex() error
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = answer{w.(controlled)}
	r = r.WithContext(r.Context()) // net/http gives trailers that were not announced to its own request only
	if removeOurs(r.Trailer); r.Trailer != nil {
		r.Body = trailed{r.Body, r.Trailer}
	}
	if up := r.Header["Upgrade"]; r.Method == http.MethodConnect || up != nil && !slices.Equal(up, []string{"h2c"}) {
		w.Header().Set("Cache-Control", "no-store")
		refuse(w, http.StatusNotImplemented, "upgrades (WebSocket) and CONNECT are not served here: they would outlive the leader's term")
		return
	}
	r.Header.Del("Upgrade") // to h2c: some clients offer it with each request, and a server may ignore it
	if f.cfg.Local != nil && slices.Contains(readMethods, r.Method) && f.cfg.Local(r) {
		removeOurs(r.Header)
		r.Header.Del("Connection")
		f.app.ServeHTTP(w, r)
		return
	}
	err := f.gate.Do(r.Context(), func(ctx context.Context, term *elector.Term) error {
		f.local(ctx, w, r, term)
		return nil
	})
	if err == nil {
		return
	}
	if r.Header.Get(forwardedHeader) != "" {
		unavailable(w, "%s does not lead", f.h.elector.ID())
		return
	}
	leader := f.h.leadership(nil)
	target, err := baseURL(leader.Address)
	switch {
	case leader.Leader == "":
		unavailable(w, "no candidate leads")
	case err != nil:
		unavailable(w, "the leader %s %v", leader.Leader, err)
	default:
		f.remote(w, r, leader.Leader, target)
	}
}

// unavailable answers a request that no app has received.
func unavailable(w http.ResponseWriter, format string, args ...any) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable, "the request was not executed: "+format, args...)
}

// local lets this replica's app answer under the term.
func (f *forwarder) local(ctx context.Context, w http.ResponseWriter, in *http.Request, term *elector.Term) {
	// The gate's context ends with the term, but a request under way may finish after a planned end.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(in.Context(), func() { cancel(context.Cause(in.Context())) })()
	var end sync.Once // by the app's return, or by a cut: the connection is not cut under a request that comes next on it
	served := make(chan struct{})
	defer end.Do(func() { close(served) })
	defer context.AfterFunc(term.Context(), func() {
		f.finish(ctx, term)
		cancel(term.Err())
		select {
		case <-served:
		case <-time.After(min(f.h.elector.Lease()/64, term.Kept()/4)):
			end.Do(func() { cut(w.(controlled), in, f.h.elector.Lease()/128) })
		}
	})()
	token := strconv.FormatUint(term.Token(), 10)
	r := in.Clone(ctx)
	r.Trailer = in.Trailer // it is filled at the end of the body
	removeOurs(r.Header)
	r.Header.Del("Connection")
	r.Header.Set(tokenHeader, token)
	w.Header().Set(leaderHeader, f.h.elector.ID())
	w.Header().Set(tokenHeader, token)
	f.app.ServeHTTP(w, r)
}

// finish blocks after a planned end of the term while a request may continue: for Finish, but no longer
// than the lease is kept. If renewals fail, another candidate may lead before Finish has passed.
func (f *forwarder) finish(ctx context.Context, term *elector.Term) {
	if ended, ok := errors.AsType[*elector.Ended](term.Err()); !ok || !ended.Reason.Wanted() {
		return
	}
	for limit := time.Now().Add(f.cfg.Finish); ; {
		left := min(time.Until(limit), term.Kept(), f.h.elector.Lease()/16)
		if left <= 0 || !lease.Sleep(ctx, left) {
			return
		}
	}
}

// cut closes the connection of a request whose app has not answered although its context has ended: nothing else
// ends its reads of a body that never comes, and its writes to a client that does not read. With HTTP/2 other requests
// share the connection: it is closed only if the client takes no reset of the stream within limit.
func cut(w controlled, in *http.Request, limit time.Duration) {
	if in.ProtoMajor == 2 && w.SetWriteDeadline(time.Unix(1, 0)) == nil && !lease.Sleep(in.Context(), limit) {
		return
	}
	c, _ := in.Context().Value(connKey{}).(net.Conn)
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn() // the Close of crypto/tls would first write to the client
	}
	_ = c.Close()
}

// remote lets the leader answer, on another replica.
func (f *forwarder) remote(w http.ResponseWriter, r *http.Request, leader string, target *url.URL) {
	ctx, giveUp := context.WithCancelCause(r.Context())
	defer giveUp(nil)
	unanswered, answered := context.WithCancel(ctx)
	defer answered()
	var traced, sent atomic.Bool // without a trace nothing proves that the request was not sent
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			traced.Store(true)
			go f.untilReplaced(unanswered, leader, giveUp)
		},
		WroteHeaders:         func() { sent.Store(true) },
		GotFirstResponseByte: answered,
	})
	proxy := &httputil.ReverseProxy{
		Transport: f.cfg.Transport,
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery // else parameters with a semicolon or a bad escape are missing
			pr.SetURL(target)
			continueForwarded(pr)
			pr.Out.Trailer = pr.In.Trailer
			if pr.Out.Body == nil { // net/http would repeat a GET, or what has an Idempotency-Key, on another connection
				pr.Out.Body, pr.Out.TransferEncoding = io.NopCloser(strings.NewReader("")), []string{"identity"}
			}
			removeOurs(pr.Out.Header)
			pr.Out.Header.Set(forwardedHeader, f.h.elector.ID())
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if traced.Load() && !sent.Load() {
				unavailable(w, "the leader can't be reached at %s: %v", target.Redacted(), err)
				return
			}
			refuse(w, http.StatusBadGateway, "no answer came from the leader at %s, so it is not known whether the request was executed: %v", target.Redacted(), err)
		},
		ErrorLog: discarded,
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// untilReplaced gives up a request when another candidate has led for a moment: a suspended leader would answer when
// it resumes, and an answer that came before the change may still be under way.
func (f *forwarder) untilReplaced(ctx context.Context, leader string, giveUp func(error)) {
	for every := f.h.elector.Lease() / 32; lease.Sleep(ctx, every); {
		if now := f.h.elected.Load(); now != nil && now.Candidate != leader && lease.Sleep(ctx, every) {
			giveUp(fmt.Errorf("%s leads now", now.Candidate))
		}
	}
}

// trailed is a body, at whose end net/http sets the trailers.
type trailed struct {
	io.ReadCloser
	trailer http.Header
}

func (t trailed) Read(b []byte) (int, error) {
	defer removeOurs(t.trailer)
	return t.ReadCloser.Read(b)
}
func (t trailed) Close() error { defer removeOurs(t.trailer); return t.ReadCloser.Close() }

// removeOurs removes the headers or trailers Mandate-... that a client has sent, also those with underscores: to a CGI
// or WSGI program they have the same names.
func removeOurs(head http.Header) {
	for name := range head {
		if strings.HasPrefix(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "mandate-") {
			delete(head, name)
		}
	}
}

// continueForwarded keeps the Host and, if a load balancer has set them, Forwarded, X-Forwarded-Host and
// X-Forwarded-Proto, and continues X-Forwarded-For, unless the client has no IP address, as on a Unix socket.
func continueForwarded(pr *httputil.ProxyRequest) {
	head, was := pr.Out.Header, pr.In.Header
	pr.Out.Host = pr.In.Host
	head["X-Forwarded-For"] = was["X-Forwarded-For"]
	pr.SetXForwarded()
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} {
		if was[name] != nil && (name != "X-Forwarded-For" || head[name] == nil) {
			head[name] = was[name]
		}
	}
}

// baseURL parses what a candidate advertises.
func baseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("advertises %q: set Config.Advertise to the URL at which the other replicas reach it, such as http://10.0.0.7:8080", address)
	}
	return u, nil
}

package electorhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Headers between replicas, for the app, and on its answers. What a client sends in them is replaced.
const (
	tokenHeader     = "Mandate-Token"     // of the term that serves the request: to the app, and on its answers
	leaderHeader    = "Mandate-Leader"    // on the app's answers: the candidate that served the request
	forwardedHeader = "Mandate-Forwarded" // the candidate that forwarded the request: it is forwarded once
)

// ForwardConfig configures Handler.Forward. The zero value of a field means its default.
type ForwardConfig struct {
	// Finish is how long a request under way may continue after a planned end of the term
	// (Reason.Wanted), before its context ends. It delays the next leader, and must be shorter than
	// Config.DrainTimeout of the candidate, during which the lease is kept. If the lease can't be
	// kept, the context ends a StopMargin before the lease does. After any other end of the term the
	// context ends at once. Default a quarter of the lease; negative: none.
	Finish time.Duration
	// Transport carries requests to the other replicas. Default: a transport without a proxy that
	// dials for at most a second and waits for an answer for as long as the client does. If it does
	// not report to net/http/httptrace, each failed request counts as sent.
	Transport http.RoundTripper
}

// Forward returns a handler that takes requests for app on every replica, while only the leader's app
// executes them: a follower passes requests on to the leader. The Advertise of each replica must be
// a URL that reaches this handler there (http://10.0.0.7:8080). So all replicas can stand behind one
// load balancer and be ready at all times.
//
//   - The leader serves a request under the gate: the lock is not released before the app has
//     answered. The app gets the term's token in the header Mandate-Token, and must have the
//     resource that it writes to compare the token, as any work must. The gate's Work must be the
//     work of e.Run. The app's answers have the headers Mandate-Leader and Mandate-Token.
//   - 503 with Retry-After: no leader executed the request, because none is known or reached, or its
//     term has just ended. The client, or the load balancer, may send it again, whatever its method.
//   - 502: the leader was gone before it had answered, so it is not known whether the request was
//     executed. Forward never sends a request to a second leader.
//   - Requests are forwarded once, so there are no loops. Hop-by-hop headers are removed,
//     X-Forwarded-For is continued, and Host is kept. Upgrades (WebSocket) and streams pass; they
//     end with the term.
//
// Forward needs Handler.Run, which follows the leader. It trusts the other replicas: anyone who can
// write to Redis can name an address to send requests to. It returns an error if the gate or the app
// is missing.
func (h *Handler) Forward(gate *elector.Gate, app http.Handler, cfg ForwardConfig) (http.Handler, error) {
	if gate == nil || app == nil {
		return nil, errors.New("electorhttp: Forward needs a gate and an app")
	}
	cfg.Finish = cmp.Or(cfg.Finish, h.elector.Lease()/4)
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: time.Second, KeepAlive: 5 * time.Second}).DialContext,
			TLSHandshakeTimeout: 2 * time.Second, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 256, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		}
	}
	return &forwarder{h: h, gate: gate, app: app, cfg: cfg}, nil
}

// forwarder serves an app on every replica. The app of the leader answers.
type forwarder struct {
	h    *Handler
	gate *elector.Gate
	app  http.Handler
	cfg  ForwardConfig
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	target, err := leaderURL(f.h.leadership(nil))
	if err != nil {
		unavailable(w, "%v", err)
		return
	}
	f.remote(w, r, target)
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
	defer context.AfterFunc(term.Context(), func() {
		f.finish(ctx, term)
		cancel(term.Err())
	})()
	token := strconv.FormatUint(term.Token(), 10)
	r := in.Clone(ctx)
	r.Header.Del(forwardedHeader)
	r.Header.Set(tokenHeader, token)
	w.Header().Set(leaderHeader, f.h.elector.ID())
	w.Header().Set(tokenHeader, token)
	f.app.ServeHTTP(w, r)
}

// finish blocks after a planned end of the term while a request may continue: for Finish, but no longer
// than the lease is kept. If renewals fail, another candidate may lead before Finish has passed.
func (f *forwarder) finish(ctx context.Context, term *elector.Term) {
	var ended *elector.Ended
	if !errors.As(term.Err(), &ended) || !ended.Reason.Wanted() {
		return
	}
	for limit := time.Now().Add(f.cfg.Finish); ; {
		left := min(time.Until(limit), term.Kept(), f.h.elector.Lease()/16)
		if left <= 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(left):
		}
	}
}

// remote lets the leader answer, on another replica.
func (f *forwarder) remote(w http.ResponseWriter, r *http.Request, target *url.URL) {
	var traced, sent atomic.Bool // without a trace nothing proves that the request was not sent
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GetConn:      func(string) { traced.Store(true) },
		WroteHeaders: func() { sent.Store(true) },
	})
	proxy := &httputil.ReverseProxy{
		Transport: f.cfg.Transport,
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery // else parameters with a semicolon or a bad escape are missing
			pr.SetURL(target)
			continueForwarded(pr)
			pr.Out.Header.Set(forwardedHeader, f.h.elector.ID())
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if traced.Load() && !sent.Load() {
				unavailable(w, "the leader can't be reached at %s: %v", target.Redacted(), err)
				return
			}
			refuse(w, http.StatusBadGateway, "no answer came from the leader at %s, so it is not known whether the request was executed: %v", target.Redacted(), err)
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // errors of clients that have disconnected
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// continueForwarded keeps the Host, continues X-Forwarded-For, and keeps X-Forwarded-Host and
// X-Forwarded-Proto if a load balancer has set them.
func continueForwarded(pr *httputil.ProxyRequest) {
	head := pr.Out.Header
	pr.Out.Host = pr.In.Host
	chain := pr.In.Header["X-Forwarded-For"]
	head["X-Forwarded-For"] = chain
	pr.SetXForwarded()
	if head["X-Forwarded-For"] == nil && chain != nil { // the client has no IP address, as on a Unix socket
		head["X-Forwarded-For"] = chain
	}
	for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto"} {
		if was := pr.In.Header[name]; was != nil {
			head[name] = was
		}
	}
}

// leaderURL returns the URL of the leader's Forward handler.
func leaderURL(l Leadership) (*url.URL, error) {
	if l.Leader == "" {
		return nil, errors.New("no candidate leads")
	}
	if l.Address == "" {
		return nil, fmt.Errorf("the leader %s advertises no address: give each candidate the URL at which the others reach it (Config.Advertise)", l.Leader)
	}
	address := l.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the leader %s advertises %q, which is no URL such as http://10.0.0.7:8080 (Config.Advertise)", l.Leader, l.Address)
	}
	return u, nil
}

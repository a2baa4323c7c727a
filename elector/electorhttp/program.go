package electorhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// Program returns an app for [Handler.Forward] that passes requests on to a program: another process,
// in any language, that serves HTTP at target (http://127.0.0.1:8000) beside this replica. Host,
// X-Forwarded-For and Mandate-Token reach the program unchanged.
//
// Under Forward, a request is held while the program can't be reached, whatever its method. It is
// sent again if the end of the term cut it off and its method is idempotent. If the program breaks off
// before it has answered, the request is not sent again, because it may be the cause: the client gets
// 502. (A transport may itself resend a request without a body if it has used the connection before.)
// A nil transport means the default of ForwardConfig.Transport.
func Program(target *url.URL, transport http.RoundTripper) http.Handler {
	return relay{&httputil.ReverseProxy{
		Transport: orDefault(transport),
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(target)
			continueForwarded(pr)
			keepToken(pr)
		},
		ModifyResponse: func(resp *http.Response) error {
			for _, name := range []string{tokenHeader, leaderHeader, notLeaderHeader} {
				resp.Header.Del(name) // only this replica reports who leads
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			wrote, _ := r.Context().Value(wroteKey{}).(*atomic.Bool)
			failure := &programError{target: target, err: err, notSent: isDialError(err) && !wrote.Load()}
			if report, ok := r.Context().Value(programKey{}).(*error); ok {
				*report = failure // Forward decides what to answer
				return
			}
			failure.answer(w)
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // errors of clients that have disconnected
	}}
}

// relay passes requests on to the program.
type relay struct{ proxy *httputil.ReverseProxy }

// wroteKey is the context key of an *atomic.Bool: the request was sent. A dial error does not prove that
// it was not: if a reused connection breaks, a transport dials to send it again, and that may fail.
type wroteKey struct{}

func (p relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wrote := new(atomic.Bool)
	ctx := context.WithValue(r.Context(), wroteKey{}, wrote)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	defer func() {
		if broken := recover(); broken != nil { // the program broke off amid its answer
			_ = http.NewResponseController(w).Flush() // or a follower assumes that the leader died, and sends the request again
			panic(broken)
		}
	}()
	p.proxy.ServeHTTP(keepHeaders(w), r.WithContext(ctx))
}

// keepHeaders makes sure that the headers that are set now are in the final answer, too. A ReverseProxy
// removes all headers after it has passed on an informational answer (1xx).
func keepHeaders(w http.ResponseWriter) http.ResponseWriter {
	return &withHeaders{w, w.Header().Clone()}
}

type withHeaders struct {
	http.ResponseWriter
	kept http.Header
}

func (w *withHeaders) WriteHeader(code int) {
	if code >= http.StatusOK {
		head := w.Header()
		for name, values := range w.kept {
			if _, set := head[name]; !set {
				head[name] = values
			}
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (w *withHeaders) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// programKey is the context key of the *error by which Program reports to Forward that the program has
// not answered.
type programKey struct{}

// programError is the error of a program that has not answered.
type programError struct {
	target  *url.URL
	err     error
	notSent bool // the program has not received the request
}

func (e *programError) Error() string {
	if e.notSent {
		return fmt.Sprintf("the program can't be reached at %s: %v", e.target.Redacted(), e.err)
	}
	return fmt.Sprintf("the program at %s did not answer: %v", e.target.Redacted(), e.err)
}

func (e *programError) Unwrap() error { return e.err }

func (e *programError) answer(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	if e.notSent {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, "the request was not executed: %v", e)
		return
	}
	refuse(w, http.StatusBadGateway, "it is not known whether the request was executed: %v", e)
}

func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// orDefault returns the transport, or the default of ForwardConfig.Transport if it is nil.
func orDefault(transport http.RoundTripper) http.RoundTripper {
	if transport != nil {
		return transport
	}
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: time.Second, KeepAlive: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 2 * time.Second, ExpectContinueTimeout: time.Second, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: 256, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
	}
}

// keepToken restores headers that a client could have had removed by naming them in its Connection
// header.
func keepToken(pr *httputil.ProxyRequest) {
	for _, name := range []string{tokenHeader, passedHeader} {
		if was := pr.In.Header[name]; was != nil {
			pr.Out.Header[name] = was
		}
	}
}

// continueForwarded keeps the Host, continues X-Forwarded-For, and keeps X-Forwarded-Host and
// X-Forwarded-Proto if a load balancer has set them.
func continueForwarded(pr *httputil.ProxyRequest) {
	head := pr.Out.Header
	pr.Out.Host = pr.In.Host
	chain := pr.In.Header["X-Forwarded-For"]
	head["X-Forwarded-For"] = slices.Clone(chain)
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

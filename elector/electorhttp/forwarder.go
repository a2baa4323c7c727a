package electorhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// ForwardConfig configures Handler.Forward. The zero value of a field means its default.
type ForwardConfig struct {
	// Hold is how long a request waits while no leader can take it; then it is answered 503.
	// Default: the lease and 2 s, so that requests survive the death of a leader. Negative:
	// no request waits.
	Hold time.Duration
	// MaxHeld is how many requests wait at a time; further ones are answered 503. Default 1024.
	MaxHeld int
	// MaxBody is the longest body, in bytes, that is kept in memory until the request has been
	// answered, so that it can be sent again. A longer body is streamed, and sent only once.
	// Default 64 KiB.
	MaxBody int64
	// Finish is how long a request under way may continue after a planned end of the term
	// (Reason.Wanted), before its context ends. It delays the next leader, and must be shorter than
	// Config.DrainTimeout of the candidate, during which the lease is kept. If the lease can't be
	// kept, the context ends a StopMargin before the lease does. After any other end of the term the
	// context ends at once. Default a quarter of the lease; negative: none.
	Finish time.Duration
	// Transport carries requests to the other replicas. Default: a transport without a proxy that
	// dials for at most a second and keeps up to 256 idle connections to each replica. A transport
	// of yours needs an ExpectContinueTimeout, or a long body is lost when the leader refuses the
	// request. If it does not report to net/http/httptrace, each failed request counts as sent.
	Transport http.RoundTripper
}

// forwarder serves an app on every replica. The app of the leader answers.
type forwarder struct {
	h     *Handler
	gate  *elector.Gate
	app   http.Handler
	cfg   ForwardConfig
	proxy *httputil.ReverseProxy
	held  chan struct{}
}

// local lets this replica's app answer under the term. The error is that of a Program that has not
// answered.
func (f *forwarder) local(ctx context.Context, w http.ResponseWriter, p *pending, term *elector.Term) error {
	// The gate's context ends with the term, but a request under way may finish after a planned end.
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer context.AfterFunc(p.in.Context(), func() { cancel(context.Cause(p.in.Context())) })()
	defer context.AfterFunc(term.Context(), func() {
		f.finish(ctx, term)
		cancel(term.Err())
	})()
	var failed error
	r := p.in.Clone(context.WithValue(ctx, programKey{}, &failed))
	r.Body = p.body()
	for _, name := range []string{tokenHeader, forwardedHeader, heldHeader} {
		r.Header.Del(name)
	}
	r.Header.Set(tokenHeader, strconv.FormatUint(term.Token(), 10))
	r.Header.Add(passedHeader, f.passed())
	w.Header().Set(leaderHeader, f.h.elector.ID())
	w.Header().Set(tokenHeader, strconv.FormatUint(term.Token(), 10))
	f.app.ServeHTTP(w, r)
	if failed != nil { // nothing was written yet, so another replica may answer
		w.Header().Del(leaderHeader)
		w.Header().Del(tokenHeader)
	}
	return programFailed(ctx, failed)
}

// passed is the value of passedHeader on requests to the app. A request that the app sends back has it.
func (f *forwarder) passed() string { return f.h.elector.Election().Name() + "/" + f.h.elector.ID() }

// programFailed makes a lostError of a Program's error if the end of the term cut the request off.
func programFailed(ctx context.Context, err error) error {
	var failure *programError
	if errors.As(err, &failure) && !failure.notSent && ctx.Err() != nil {
		return &lostError{context.Cause(ctx)} // the end of the term cut it off
	}
	return err
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
func (f *forwarder) remote(w http.ResponseWriter, p *pending, target *url.URL, l Leadership) error {
	ctx, cancel := context.WithCancelCause(p.in.Context())
	defer cancel(nil)
	a := &attempt{p: p, target: target, from: f.h.elector.ID(), token: l.Token, answered: make(chan struct{})}
	ctx = context.WithValue(ctx, attemptKey{}, a)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { a.traced.Store(true) },
		WroteHeaders: func() { a.sent.Store(true) },
	})
	go a.giveUp(ctx, cancel, f.h.journal.next(l.Token))
	r := p.in.WithContext(ctx)
	r.Body = p.body()
	if p.whole {
		r.ContentLength = int64(len(p.kept))
		r.GetBody = func() (io.ReadCloser, error) { return p.body(), nil }
	}
	proxy := *f.proxy
	proxy.ModifyResponse = a.check
	proxy.ServeHTTP(w, r)
	switch {
	case a.err == nil:
		return nil
	case a.done: // the leader has answered, but the upgrade failed
		refuse(w, http.StatusBadGateway, "%v", a.err)
		return nil
	case errors.Is(a.err, errRefused):
		if p.touched.Load() {
			return errBodySpent
		}
		return errRefused
	case a.sent.Load() || !a.traced.Load():
		if cause := context.Cause(ctx); cause != nil && p.in.Context().Err() == nil {
			a.err = cause
		}
		return &lostError{a.err}
	default:
		return fmt.Errorf("the leader %s can't be reached at %s: %w", l.Leader, l.Address, a.err)
	}
}

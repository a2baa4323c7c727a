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

// ForwardConfig is how requests find the leader. The zero value of a field means its default.
type ForwardConfig struct {
	// Hold is how long a request waits while no leader can take it; then it is answered 503.
	// Default: the lease and 2 s, so that requests outlast a leader that was killed. Negative:
	// none waits.
	Hold time.Duration
	// MaxHeld is how many requests wait at a time; one more is answered 503. Default 1024.
	MaxHeld int
	// MaxBody is the longest body, in bytes, that is kept in memory until the request has been
	// answered, so that it can be sent again. A longer one is sent as it comes, and once.
	// Default 64 KiB.
	MaxBody int64
	// Finish is for how long a request under way may go on after a planned end of the term
	// (Reason.Wanted), before its context ends. It holds up the next leader, and must be shorter than
	// Config.DrainTimeout of the candidate, during which the lease is kept: when that fails, the context
	// ends a StopMargin before the lease. Default a quarter of the lease; negative: none. After any other
	// end the context ends at once.
	Finish time.Duration
	// Transport carries requests to the other replicas. Default: one without a proxy, that
	// dials for a second at most and keeps up to 256 idle connections to a replica. One of yours
	// needs an ExpectContinueTimeout, or a long body is lost with a leader that refuses it; and where it
	// does not report to net/http/httptrace, each failed request counts as sent.
	Transport http.RoundTripper
}

// forwarder serves an app on every replica: the leader's answers.
type forwarder struct {
	h     *Handler
	gate  *elector.Gate
	app   http.Handler
	cfg   ForwardConfig
	proxy *httputil.ReverseProxy
	held  chan struct{}
}

// local has this replica's app answer under the term. An error is that of a Program that has not.
func (f *forwarder) local(ctx context.Context, w http.ResponseWriter, p *pending, term *elector.Term) error {
	// The gate's context ends with the term. What is under way may finish after a planned end.
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
	if failed != nil { // nothing was written: another may answer
		w.Header().Del(leaderHeader)
		w.Header().Del(tokenHeader)
	}
	return programFailed(ctx, failed)
}

// passed is what a request that comes back from the app has in its header.
func (f *forwarder) passed() string { return f.h.elector.Election().Name() + "/" + f.h.elector.ID() }

// programFailed makes of what Program has reported under a term what Forward does about it.
func programFailed(ctx context.Context, err error) error {
	var failure *programError
	if errors.As(err, &failure) && !failure.notSent && ctx.Err() != nil {
		return &lostError{context.Cause(ctx)} // the end of the term cut it off
	}
	return err
}

// finish lets a request go on after a planned end of the term, while the lease is kept: when its renewals fail
// meanwhile, another candidate may lead before Finish has passed.
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

// remote has the leader answer.
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
	case a.done: // an upgrade that failed
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

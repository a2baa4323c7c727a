package electorhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Forward returns a handler that takes requests for app on every replica, while only the leader's app
// executes them: a follower passes requests on to the leader. The Advertise of each replica must be
// a URL that reaches this handler there (http://10.0.0.7:8080). So all replicas can stand behind one
// load balancer and be ready at all times.
//
//   - The leader serves a request under the gate: the lock is not released before the app has
//     answered. The app gets the term's token in the header Mandate-Token, and must have the
//     resource that it writes to compare the token, as any work must. The gate's Work must be the
//     work of e.Run.
//   - While no candidate leads, requests are held (ForwardConfig.Hold) and then sent to the
//     next leader. A request that the leader refused because its term had ended was not executed.
//     It is held too, whatever its method.
//   - When the leader is gone before it has answered, the request is sent again if its method is
//     idempotent (RFC 9110, 9.2.2) or it has a header Idempotency-Key. Otherwise the client gets
//     502, because it is not known whether the request was executed.
//   - Requests are forwarded once, so there are no loops. Hop-by-hop headers are removed,
//     X-Forwarded-For is continued, and Host is kept. Upgrades (WebSocket) and streams pass; they
//     end with the term.
//
// Forward needs Handler.Run, which follows the leader. It trusts the other replicas: anyone who can
// write to Redis can name an address to send requests to. A write time-out of the server should be
// longer than Hold. At a shutdown, continue to serve for a second after e.Run has returned, until the
// other replicas know the new leader. Forward returns an error if the gate or the app is missing, or
// a limit is negative.
func (h *Handler) Forward(gate *elector.Gate, app http.Handler, cfg ForwardConfig) (http.Handler, error) {
	if gate == nil || app == nil {
		return nil, errors.New("electorhttp: Forward needs a gate and an app")
	}
	if cfg.MaxHeld < 0 || cfg.MaxBody < 0 {
		return nil, errors.New("electorhttp: MaxHeld and MaxBody must not be negative")
	}
	lease := h.elector.Lease()
	cfg.Hold = cmp.Or(cfg.Hold, lease+2*time.Second)
	cfg.MaxHeld = cmp.Or(cfg.MaxHeld, 1024)
	cfg.MaxBody = cmp.Or(cfg.MaxBody, 64<<10)
	cfg.Finish = cmp.Or(cfg.Finish, lease/4)
	cfg.Transport = orDefault(cfg.Transport)
	f := &forwarder{h: h, gate: gate, app: app, cfg: cfg, held: make(chan struct{}, cfg.MaxHeld)}
	f.proxy = &httputil.ReverseProxy{
		Transport: cfg.Transport, Rewrite: rewrite, ErrorHandler: broken,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // errors of clients that have disconnected
	}
	return f, nil
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := f.take(r)
	for {
		led := f.h.journal.changes() // before the attempt, so that no change in between is missed
		opened := f.gate.Opened()
		err := f.attempt(w, p)
		if err == nil {
			return
		}
		if !p.again(err) || !f.wait(p, err, led, opened) {
			f.fail(w, p, err)
			return
		}
	}
}

func (f *forwarder) take(r *http.Request) *pending {
	p := &pending{in: r, limit: time.Now().Add(f.cfg.Hold)}
	if r.Header.Get(forwardedHeader) == "" {
		return p
	}
	p.forwarded = true
	p.believed, _ = strconv.ParseUint(r.Header.Get(tokenHeader), 10, 64)
	if ms, err := strconv.ParseInt(r.Header.Get(heldHeader), 10, 32); err == nil && ms >= 0 {
		p.limit = time.Now().Add(min(f.cfg.Hold, time.Duration(ms)*time.Millisecond))
	}
	return p
}

// attempt tries once to get an answer, from this replica's app or from the leader's.
func (f *forwarder) attempt(w http.ResponseWriter, p *pending) error {
	if slices.Contains(p.in.Header[passedHeader], f.passed()) {
		return errLoop
	}
	if p.replayable() { // the term may end while the request is served here
		if err := p.keep(f.cfg.MaxBody); err != nil {
			return err
		}
	}
	err := f.gate.Do(p.in.Context(), func(ctx context.Context, term *elector.Term) error {
		return f.local(ctx, w, p, term)
	})
	if !errors.Is(err, elector.ErrNotLeader) {
		return err
	}
	if p.forwarded {
		if f.h.journal.over(p.believed) {
			return errRefused
		}
		return errNoLeader // the other replica may know earlier than this one that this one leads
	}
	l := f.h.leadership(nil)
	if l.Leader == "" {
		return errNoLeader
	}
	target, err := leaderURL(l)
	if err != nil {
		return err
	}
	if l.Address == f.h.elector.Advertise() && l.Leader != f.h.elector.ID() {
		return fmt.Errorf("the leader %s advertises %s, as this replica does: give each its own address (Config.Advertise, --advertise)", l.Leader, l.Address)
	}
	if err := p.keep(f.cfg.MaxBody); err != nil {
		return err
	}
	return f.remote(w, p, target, l)
}

// retryEvery is the pause before another attempt to reach a leader, or its program, unless a change of
// the leader ends it. The pause doubles each time that the request was sent and not answered.
const retryEvery = 50 * time.Millisecond

// wait holds the request until there may be a leader for it. False: the request can't wait, or has
// waited for long enough.
func (f *forwarder) wait(p *pending, err error, led, opened <-chan struct{}) bool {
	left := time.Until(p.limit)
	if left <= 0 {
		return false
	}
	select {
	case f.held <- struct{}{}:
		defer func() { <-f.held }()
	default:
		p.crowded = true
		return false
	}
	var retry <-chan time.Time
	if !errors.Is(err, errNoLeader) {
		retry = time.After(retryEvery << min(p.lost, 8))
	}
	var program *programError
	if errors.As(err, &program) {
		opened = nil // this replica leads already, so opened is closed
	}
	limit := time.NewTimer(left)
	defer limit.Stop()
	select {
	case <-led:
	case <-opened:
	case <-retry:
	case <-p.in.Context().Done():
		return false
	case <-limit.C:
		return false
	}
	return true
}

// fail answers a request with an error, because no leader has answered it.
func (f *forwarder) fail(w http.ResponseWriter, p *pending, err error) {
	w.Header().Set("Cache-Control", "no-store")
	if errors.Is(err, errLoop) {
		refuse(w, http.StatusLoopDetected, "the request was not executed: %v", err)
		return
	}
	if p.unknown {
		refuse(w, http.StatusBadGateway, "no answer came from the leader, so it is not known whether the request was executed: %v", err)
		return
	}
	var body *bodyError
	if errors.As(err, &body) {
		refuse(w, http.StatusBadRequest, "the request was not executed: %v", err)
		return
	}
	if p.forwarded {
		w.Header().Set(notLeaderHeader, f.h.elector.ID())
	}
	w.Header().Set("Retry-After", "1")
	if p.crowded {
		err = fmt.Errorf("%w, and %d requests wait already", err, f.cfg.MaxHeld)
	}
	refuse(w, http.StatusServiceUnavailable, "the request was not executed: %v", err)
}

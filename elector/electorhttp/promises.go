package electorhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
)

// Promise lets /leader promise for how long its 200 may be relied on
// (valid_for_ms), while the term is valid. The caller must call Lapse before the lock
// is released. Work does both; call Promise only for terms of Campaign.
func (h *Handler) Promise(term *elector.Term) {
	h.promised.Store(newPromises(term))
}

// Work wraps work so that the lock is not released before all promises that /leader
// made about the term have lapsed, or were given back (POST /stopped). That takes at
// most Config.Promise after work has returned, or after the term's end if that is
// earlier. Without Work, /leader promises nothing: valid_for_ms is 0.
func (h *Handler) Work(work elector.Work) elector.Work {
	return func(ctx context.Context, term *elector.Term) error {
		h.Promise(term)
		defer h.Lapse(term, 0) // also when the work panics
		return work(ctx, term)
	}
}

// Lapse makes no more promises about a term: from now on /leader answers 503 for it.
// Lapse returns when every promise has lapsed and grace is over, or as soon as no
// promise is left and a worker has reported that it has stopped; then stopped is
// true. It blocks for at most Config.Promise or grace, whichever is longer.
func (h *Handler) Lapse(term *elector.Term, grace time.Duration) (stopped bool) {
	over := time.Now().Add(grace)
	p := h.promised.Load()
	if p == nil || p.token != term.Token() {
		time.Sleep(grace)
		return false
	}
	return p.lapse(over)
}

// lapse implements Lapse. over is when the grace ends.
func (p *promises) lapse(over time.Time) (stopped bool) {
	for {
		until, stopped, changed := p.close()
		if !stopped && until.Before(over) {
			until = over
		}
		left := time.Until(until)
		if left <= 0 {
			return stopped
		}
		lapsed := time.NewTimer(left)
		select {
		case <-lapsed.C:
		case <-changed:
			lapsed.Stop()
		}
	}
}

// promise makes the promise for one answer of /leader, and returns for how long the
// worker may work. ok is false when the term or its work has ended.
func (h *Handler) promise(term *elector.Term, worker string, most time.Duration) (valid time.Duration, ok bool) {
	p := h.promised.Load()
	if p == nil || p.token != term.Token() {
		return 0, true // without Work, nothing would keep the promise
	}
	return p.give(term, worker, most)
}

// promiseRequest reads from a request which worker wants a promise, and for how long at most.
func (c *Config) promiseRequest(r *http.Request) (worker string, most time.Duration, err error) {
	most = c.Promise
	if r.Method == http.MethodHead { // the answer has no body for valid_for_ms
		return "", 0, nil
	}
	if r.URL.RawQuery == "" {
		return "", most, nil
	}
	q := r.URL.Query()
	if s := q.Get("valid_for_ms"); s != "" {
		ms, err := strconv.ParseUint(s, 10, 31)
		if err != nil {
			return "", 0, errors.New("valid_for_ms must be a number of milliseconds: how long the answer should be good for, at most")
		}
		most = min(most, time.Duration(ms)*time.Millisecond)
	}
	if q.Has("worker") {
		worker, err = workerName(q.Get("worker"))
	}
	return worker, most, err
}

func workerName(name string) (string, error) {
	if len(name) < minWorker || len(name) > maxWorker {
		return "", fmt.Errorf("worker must be %d to %d bytes long: a random name that this worker made up when it started", minWorker, maxWorker)
	}
	for _, r := range name {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			return "", errors.New("worker must consist of printable ASCII characters")
		}
	}
	return name, nil
}

// stopped serves POST /stopped: a worker reports, after the term's end, that it has
// stopped, and so gives its promise back. While the term is valid this is refused: a
// request that was delayed would give back a newer promise.
func (h *Handler) stopped(w http.ResponseWriter, r *http.Request) {
	worker, token, ok := readStopped(w, r)
	if !ok {
		return
	}
	p := h.promised.Load()
	if p == nil {
		refuse(w, http.StatusConflict, "nothing is promised about term %d here", token)
		return
	}
	term := h.elector.Term()
	p.replyStopped(w, worker, token, term == nil || term.Token() != token)
}

// readStopped reads the worker and the token from POST /stopped, or refuses the request.
func readStopped(w http.ResponseWriter, r *http.Request) (worker string, token uint64, ok bool) {
	if webguard.CrossSite(r) {
		refuse(w, http.StatusForbidden, "requested by a page of another site")
		return "", 0, false
	}
	q := r.URL.Query()
	worker, err := workerName(q.Get("worker"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return "", 0, false
	}
	token, err = strconv.ParseUint(q.Get("token"), 10, 64)
	if err != nil {
		refuse(w, http.StatusBadRequest, "token must be that of the term: POST /stopped?worker=NAME&token=TOKEN")
		return "", 0, false
	}
	return worker, token, true
}

// replyStopped gives back the worker's promise about this term, and answers the request. over: the
// term has ended.
func (p *promises) replyStopped(w http.ResponseWriter, worker string, token uint64, over bool) {
	if p.token != token {
		refuse(w, http.StatusConflict, "nothing is promised about term %d here", token)
		return
	}
	switch p.stop(worker, over) {
	case stopHolds:
		refuse(w, http.StatusConflict, "term %d is valid: its promises lapse unless they are requested again", token)
	case stopUnknown:
		refuse(w, http.StatusNotFound, "this worker was promised nothing in term %d", token)
	case stopDone:
		reply(w, http.StatusOK, map[string]any{"stopped": true, "token": token})
	}
}

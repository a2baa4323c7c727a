package electorhttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Leadership is the body of GET /leader.
type Leadership struct {
	Election  string `json:"election"`
	Candidate string `json:"candidate"` // this one
	Leading   bool   `json:"leading"`   // this one leads
	Leader    string `json:"leader"`    // empty: none, or not known. This candidate's id: an earlier life of it, or another process
	Address   string `json:"address,omitempty"`
	Token     uint64 `json:"token,omitempty"`
	// ValidFor is for how long after the request was sent a worker may work; the
	// lock is not released before. 0: not at all (see Handler.Work).
	ValidFor int64 `json:"valid_for_ms"`
}

// leader never waits for anything: load balancers poll it every second.
func (h *Handler) leader(w http.ResponseWriter, r *http.Request) {
	worker, most, err := h.cfg.wanted(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	if term := h.elector.Term(); term != nil {
		l := h.leadership(term)
		valid, ok := h.promise(term, worker, most)
		l.ValidFor = valid.Milliseconds()
		// The last check before the answer goes out.
		if now := h.elector.Term(); ok && now != nil && now.Token() == l.Token {
			answerLeader(w, http.StatusOK, l)
			return
		}
	}
	answerLeader(w, http.StatusServiceUnavailable, h.leadership(nil))
}

// leadership describes this candidate's term, or else who leads elsewhere as far
// as Redis confirmed it, and as long as that can still be true. What this very
// process holds without a valid term is no leadership; what an earlier life under
// the same id holds is.
func (h *Handler) leadership(term *elector.Term) Leadership {
	l := Leadership{Election: h.elector.Election().Name(), Candidate: h.elector.ID()}
	if term != nil {
		l.Leading, l.Leader, l.Address, l.Token = true, l.Candidate, h.elector.Advertise(), term.Token()
	} else if last := h.journal.leader(); last != nil && last.Incarnation != h.elector.Incarnation() && !h.elector.Stats().LeaderUnknown {
		l.Leader, l.Address, l.Token = last.Candidate, last.Advertise, last.Token
	}
	return l
}

func answerLeader(w http.ResponseWriter, code int, l Leadership) {
	head := w.Header()
	head.Set("Mandate-Election", l.Election)
	head.Set("Mandate-Candidate", l.Candidate)
	if l.Leader != "" {
		head.Set("Mandate-Leader", l.Leader)
		head.Set("Mandate-Token", strconv.FormatUint(l.Token, 10))
	}
	if l.Address != "" {
		head.Set("Mandate-Address", l.Address)
	}
	reply(w, code, l)
}

func (h *Handler) status(w http.ResponseWriter, r *http.Request) {
	h.query(w, r, func(ctx context.Context) {
		st, err := h.elector.Election().Status(ctx)
		if err != nil {
			reply(w, http.StatusBadGateway, st) // it holds what each node answered
			return
		}
		reply(w, http.StatusOK, st)
	})
}

func (h *Handler) history(w http.ResponseWriter, r *http.Request) {
	n := 20
	if s := r.URL.Query().Get("n"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil || n < 1 || n > 500 {
			refuse(w, http.StatusBadRequest, "n must be a number from 1 to 500")
			return
		}
	}
	h.query(w, r, func(ctx context.Context) {
		past, err := h.elector.Election().Timeline(ctx, n, time.Time{})
		if errors.Is(err, elector.ErrUnreachable) || errors.Is(err, elector.ErrClosed) { // else it is complete but for the cordons
			refuse(w, http.StatusBadGateway, "%s", elector.Problem(err))
			return
		}
		reply(w, http.StatusOK, timeline{past, elector.Problem(err)})
	})
}

// timeline is what /history answers.
type timeline struct {
	elector.Timeline

	CordonsError string `json:"cordons_error,omitempty"` // why cordons may be missing
}

// query lets a query of Redis through: however many requests come, Redis is queried by a
// few at a time.
func (h *Handler) query(w http.ResponseWriter, r *http.Request, f func(context.Context)) {
	limit := time.Now().Add(queryTimeout)
	ctx, cancel := context.WithDeadline(r.Context(), limit)
	defer cancel()
	select {
	case h.queries <- struct{}{}:
		defer func() { <-h.queries }()
		// Both may have come at once, and the context ends a little after its limit: a
		// request without any time left would be answered as if Redis had failed.
		if ctx.Err() == nil && time.Now().Before(limit) {
			f(ctx)
			return
		}
	case <-ctx.Done():
	}
	w.Header().Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable, "too many requests at a time")
}

// unhealthySince is since when the candidate's probe fails; zero: it does not.
func (h *Handler) unhealthySince() time.Time {
	if probe := h.elector.Stats().Probe; probe != nil && !probe.Healthy {
		return probe.Since
	}
	return time.Time{}
}

// readiness answers by a check that does no I/O.
func readiness(check func() error, unhealthySince func() time.Time) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			reply(w, http.StatusServiceUnavailable, failure{Error: err.Error(), UnhealthySince: unhealthySince()})
			return
		}
		reply(w, http.StatusOK, map[string]bool{"ready": true})
	}
}

func (h *Handler) candidates(w http.ResponseWriter, r *http.Request) {
	h.query(w, r, func(ctx context.Context) {
		all, err := h.elector.Election().Candidates(ctx)
		if err != nil {
			refuse(w, http.StatusBadGateway, "%s", elector.Problem(err))
			return
		}
		reply(w, http.StatusOK, append([]elector.CandidateStatus{}, all...))
	})
}

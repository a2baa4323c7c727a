package electorhttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// guarded lets requests with the token through, and refuses all others.
func (h *Handler) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h.bearer == nil {
			refuse(w, http.StatusForbidden, "%s is not enabled here: configure a token", r.URL.Path)
			return
		}
		switch h.bearer.Check(w, r) {
		case http.StatusUnauthorized:
			refuse(w, http.StatusUnauthorized, "send the token: Authorization: Bearer TOKEN")
		case http.StatusTooManyRequests:
			refuse(w, http.StatusTooManyRequests, "too many wrong tokens: try again in %s s", w.Header().Get("Retry-After"))
		default:
			next(w, r)
		}
	}
}

// handover returns a context that limits the wait for a change of the leader. The work may
// take a lease to stop, by default.
func (h *Handler) handover(w http.ResponseWriter, r *http.Request) (context.Context, context.CancelFunc) {
	wait := 2*h.elector.Lease() + writeTimeout
	extendWriteDeadline(http.NewResponseController(w), wait+writeTimeout)
	return context.WithTimeout(r.Context(), wait)
}

// resign serves POST /resign: this candidate steps down, and resign waits until it has. Without force
// it refuses if no other candidate could be elected, unless that can't be found out (a node hangs, a
// right is missing).
func (h *Handler) resign(w http.ResponseWriter, r *http.Request) {
	term := h.elector.Term()
	if term == nil {
		refuse(w, http.StatusConflict, "%s does not lead", h.elector.ID())
		return
	}
	force, err := strconv.ParseBool(cmp.Or(r.URL.Query().Get("force"), "false"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "force is %.100q: send true or false", r.URL.Query().Get("force"))
		return
	}
	ctx, cancel := h.handover(w, r)
	defer cancel()
	if !force {
		if _, err := h.elector.Election().Successors(ctx); errors.Is(err, elector.ErrRefused) {
			refuse(w, http.StatusConflict, "%s, or send force=true", elector.Problem(err))
			return
		}
	}
	if err := h.elector.Resign(ctx); err != nil {
		refuse(w, http.StatusAccepted, "stepping down, its work has not stopped yet")
		return
	}
	reply(w, http.StatusOK, map[string]any{"resigned": true, "candidate": h.elector.ID(), "token": term.Token()})
}

// Transferred is the body of POST /transfer.
type Transferred struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Token uint64 `json:"token"`
	Gap   int64  `json:"gap_ms"` // time without a leader, by the clocks of two hosts; 0: not known, or less than 1
}

// transfer serves POST /transfer: it requests that the leader hands over to a candidate, and waits
// until the leader has.
func (h *Handler) transfer(w http.ResponseWriter, r *http.Request) {
	to := r.URL.Query().Get("to")
	if to == "" {
		refuse(w, http.StatusBadRequest, "name the candidate: POST /transfer?to=ID; GET /candidates lists them")
		return
	}
	ctx, cancel := h.handover(w, r)
	defer cancel()
	change, err := h.elector.Election().Transfer(ctx, to)
	switch {
	case errors.Is(err, elector.ErrUnreachable):
		refuse(w, http.StatusBadGateway, "%s", elector.Problem(err))
	case err != nil:
		refuse(w, http.StatusConflict, "%s", elector.Problem(err))
	default:
		reply(w, http.StatusOK, Transferred{change.From.Candidate, change.To.Candidate, change.To.Token, change.Gap.Round(time.Millisecond).Milliseconds()})
	}
}

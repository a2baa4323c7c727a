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

// Leadership is the body of GET /leader.
type Leadership struct {
	Election  string `json:"election"`
	Candidate string `json:"candidate"`         // this one
	Leading   bool   `json:"leading"`           // this one leads
	Leader    string `json:"leader"`            // its id; empty: none, or not known. If Leading is false and it is this candidate's id, an earlier incarnation or another process with the same id leads
	Address   string `json:"address,omitempty"` // where the leader can be reached, as configured
	Token     uint64 `json:"token,omitempty"`   // of the leader's term
	// ValidFor is how long a worker may work, in ms counted from before it sent the
	// request. The lock is not released before. 0: not at all (see Handler.Work).
	ValidFor int64 `json:"valid_for_ms"`
}

// leader serves GET /leader. It never blocks: load balancers poll it every second.
func (h *Handler) leader(w http.ResponseWriter, r *http.Request) {
	most, err := h.requested(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	if term := h.elector.Term(); term != nil {
		l := h.leadership(term)
		valid, ok := h.promised.Load().give(term, most)
		l.ValidFor = valid.Milliseconds()
		// Check once more, just before the answer is sent.
		if now := h.elector.Term(); ok && now != nil && now.Token() == l.Token {
			answerLeader(w, http.StatusOK, l)
			return
		}
	}
	answerLeader(w, http.StatusServiceUnavailable, h.leadership(nil))
}

// leadership describes this candidate's term, or else the leader elsewhere that Redis
// has confirmed, as long as that may still be true. A lock of this process without a
// valid term is not reported as leadership; a lock of an earlier incarnation with the
// same id is.
func (h *Handler) leadership(term *elector.Term) Leadership {
	l := Leadership{Election: h.elector.Election().Name(), Candidate: h.elector.ID()}
	if term != nil {
		l.Leading, l.Leader, l.Address, l.Token = true, l.Candidate, h.elector.Advertise(), term.Token()
	} else if last := h.elected.Load(); last != nil && last.Incarnation != h.elector.Incarnation() && !h.elector.Stats().LeaderUnknown {
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

// status serves GET /status. It queries Redis, for at most maxQueries requests at a time, however many come.
func (h *Handler) status(w http.ResponseWriter, r *http.Request) {
	limit := time.Now().Add(queryTimeout)
	ctx, cancel := context.WithDeadline(r.Context(), limit)
	defer cancel()
	select {
	case h.queries <- struct{}{}:
		defer func() { <-h.queries }()
		// Both cases may have been ready, and the context ends a little after its limit.
		// A query without any time left would be answered as if Redis had failed.
		if ctx.Err() == nil && time.Now().Before(limit) {
			st, err := h.elector.Election().Status(ctx)
			code := http.StatusOK
			if err != nil {
				code = http.StatusBadGateway // st holds what each node answered
			}
			reply(w, code, st)
			return
		}
	case <-ctx.Done():
	}
	w.Header().Set("Retry-After", "1")
	refuse(w, http.StatusServiceUnavailable, "too many requests at a time")
}

// ready serves GET /ready. It does no I/O.
func (h *Handler) ready(w http.ResponseWriter, _ *http.Request) {
	err := h.elector.Check()
	if err == nil {
		reply(w, http.StatusOK, map[string]bool{"ready": true})
		return
	}
	no := failure{Error: err.Error()}
	if probe := h.elector.Stats().Probe; probe != nil && !probe.Healthy {
		no.UnhealthySince = probe.Since
	}
	reply(w, http.StatusServiceUnavailable, no)
}

// resign serves POST /resign: this candidate steps down, and resign waits until it has. Without force
// it refuses if no other candidate could be elected, unless that can't be found out (a node hangs, a
// right is missing).
func (h *Handler) resign(w http.ResponseWriter, r *http.Request) {
	if h.bearer == nil {
		refuse(w, http.StatusForbidden, "%s is not enabled here: configure a token", r.URL.Path)
		return
	}
	if !h.bearer.Check(w, r) {
		refuse(w, http.StatusUnauthorized, "send the token: Authorization: Bearer TOKEN")
		return
	}
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
	wait := 2*h.elector.Lease() + writeTimeout // the work may take a lease to stop, by default
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	if !force {
		if _, err := h.elector.Election().Successors(ctx); errors.Is(err, elector.ErrRefused) {
			refuse(w, http.StatusConflict, "%s, or send force=true", err.Error())
			return
		}
	}
	if err := h.elector.Resign(ctx); err != nil {
		refuse(w, http.StatusAccepted, "stepping down, its work has not stopped yet")
		return
	}
	reply(w, http.StatusOK, map[string]any{"resigned": true, "candidate": h.elector.ID(), "token": term.Token()})
}

package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// actionRequest is the body of a POST.
type actionRequest struct {
	Election string `json:"election"`
	To       string `json:"to,omitempty"`
	Reason   string `json:"reason,omitempty"`
	By       string `json:"by,omitempty"`     // who wants it
	Force    bool   `json:"force,omitempty"`  // resign although no other candidate could lead
	ForMS    int64  `json:"for_ms,omitempty"` // of a pause; 0: until it is resumed
}

// actionResult is the answer: what came of the request.
type actionResult struct {
	Result string `json:"result"`
}

// An action carries out a request, and returns what came of it.
type operatorAction func(context.Context, *elector.Election, actionRequest) (string, error)

var actions = map[string]operatorAction{"resign": resign, "transfer": transfer, "pause": pauseElection, "resume": resume}

func resign(ctx context.Context, el *elector.Election, o actionRequest) (string, error) {
	if !o.Force {
		if _, err := el.Successors(ctx); err != nil {
			return "", err
		}
	}
	h, err := el.StepDown(ctx, o.Reason)
	return handover(h), err
}

func transfer(ctx context.Context, el *elector.Election, o actionRequest) (string, error) {
	if o.To == "" {
		return "", errors.New("to is missing: the id of a candidate")
	}
	h, err := el.Transfer(ctx, o.To)
	return handover(h), err
}

func pauseElection(ctx context.Context, el *elector.Election, o actionRequest) (string, error) {
	const maxPause = 366 * 24 * time.Hour
	if o.ForMS < 0 || o.ForMS > maxPause.Milliseconds() {
		return "", fmt.Errorf("for_ms is %d: give a time of at most a year, or 0 for no end", o.ForMS)
	}
	if limit := 400; len(o.Reason) > limit {
		return "", fmt.Errorf("a reason of %d bytes: at most %d", len(o.Reason), limit)
	}
	return result("paused: no new leader will be elected", el.Pause(ctx, time.Duration(o.ForMS)*time.Millisecond, o.Reason))
}

func resume(ctx context.Context, el *elector.Election, o actionRequest) (string, error) {
	return result("resumed", el.Resume(ctx))
}

// result is what a majority of the nodes did, with the trouble of the others.
func result(said string, err error) (string, error) {
	switch {
	case err == nil:
		return said, nil
	case errors.Is(err, elector.ErrUnreachable), errors.Is(err, elector.ErrRefused):
		return "", err // it was not done
	}
	return said + "; " + problemText(err), nil
}

func handover(h elector.Handover) string {
	if h.To.Token == 0 {
		return ""
	}
	said := fmt.Sprintf("%s leads, token %d", bounded(h.To.Candidate), h.To.Token)
	if h.Gap > 0 {
		said += fmt.Sprintf(", %.1f ms after %s had stopped", float64(h.Gap)/1e6, bounded(h.From.Candidate))
	}
	return said
}

// read takes one order, and nothing beside it.
func read(body io.Reader) (actionRequest, error) {
	var o actionRequest
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return actionRequest{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return actionRequest{}, errors.New("something follows it")
	}
	return o, nil
}

// order is POST /api/<name>. The header that it must carry is one that no other
// site can make a browser send: that keeps forged requests out.
func (c *Console) order(w http.ResponseWriter, r *http.Request, name string, do operatorAction) {
	if c.bearer == nil {
		refuse(w, http.StatusForbidden, "not enabled here: start mandate console with --actions")
		return
	}
	switch c.bearer.Check(w, r) {
	case http.StatusUnauthorized:
		refuse(w, http.StatusUnauthorized, "the token is wrong")
		return
	case http.StatusTooManyRequests:
		refuse(w, http.StatusTooManyRequests, "too many wrong tokens: try again in %s s", w.Header().Get("Retry-After"))
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "send Content-Type: application/json")
		return
	}
	o, err := read(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "not an order: %v", err)
		return
	}
	if o.By != printable(o.By) {
		refuse(w, http.StatusBadRequest, "by is %.120q: a name of at most %d bytes, without control characters", o.By, maxBy)
		return
	}
	if len(c.cfg.Elections) > 0 && !slices.Contains(c.cfg.Elections, o.Election) {
		refuse(w, http.StatusNotFound, "%q is no election that is shown here", o.Election)
		return
	}
	select {
	case c.orders <- struct{}{}:
		defer func() { <-c.orders }()
	default:
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "%d orders are being carried out: try again", maxOrders)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(orderTimeout + writeTimeout)) // not every ResponseWriter can
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	el, err := c.cfg.Quorum.Election(o.Election)
	if err != nil { // a key that was made by hand
		refuse(w, http.StatusBadRequest, "%s", problemText(err))
		return
	}
	if !c.cache.has(kindRow, o.Election) && len(c.cfg.Elections) == 0 { // nobody looks at the page
		if err := exists(ctx, el); err != nil {
			answer(w, "", err)
			return
		}
	}
	direct, _ := r.Context().Value(directKey{}).(string)
	by := c.operator(r, direct, o.By)
	said, err := do(ctx, el.As(by), o)
	c.cfg.Logger.Info("operator action", "action", name, "election", o.Election, "to", o.To, "by", by, "from", r.RemoteAddr, "reason", bounded(o.Reason), "result", said, "error", problemText(err))
	answer(w, said, err)
}

// errUnknownElection is the answer to a name of which Redis knows nothing.
var errUnknownElection = errors.New("no such election: no candidate has ever led it, and none answers")

// exists is nil for an election that has left a trace in Redis, or has candidates: a
// misspelt name must not be paused.
func exists(ctx context.Context, el *elector.Election) error {
	st, err := el.Status(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(st.Nodes, func(n elector.NodeStatus) bool {
		return n.Fence > 0 || n.Holder != "" || n.Foreign != "" || n.Abstains > 0
	}) {
		return nil
	}
	if roll, err := el.Candidates(ctx); err != nil || len(roll) > 0 {
		return err
	}
	return errUnknownElection
}

func answer(w http.ResponseWriter, said string, err error) {
	code := http.StatusOK
	switch {
	case err == nil:
		reply(w, code, actionResult{said})
		return
	case errors.Is(err, errUnknownElection):
		code = http.StatusNotFound
	case errors.Is(err, elector.ErrRefused), errors.Is(err, elector.ErrNoLeader):
		code = http.StatusConflict
	case errors.Is(err, elector.ErrUnreachable):
		code = http.StatusBadGateway
	default:
		code = http.StatusBadRequest
	}
	refuse(w, code, "%s", problemText(err))
}

package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
	"github.com/mandate-dev/mandate/elector/shard"
)

const (
	maxActions    = 4                // that run at the same time
	actionTimeout = 30 * time.Second // includes the wait for the next leader
)

// operators performs the actions of operators, who know the token.
type operators struct {
	quorum    *elector.Quorum
	elections []string // the elections or groups that are shown; empty: all
	cache     *cache
	visitors  *visitors
	bearer    *webguard.Bearer // nil: there are no buttons
	running   chan struct{}
	log       *slog.Logger
}

// act serves POST /api/<name>. It requires a header that a page of another site can't make a
// browser send, which prevents forged requests.
func (o *operators) act(w http.ResponseWriter, r *http.Request, name string, do operatorAction) {
	req, ok := o.permitted(w, r)
	if !ok {
		return
	}
	if !o.shows(req.Election) {
		refuse(w, http.StatusNotFound, "%q is no election that is shown here", req.Election)
		return
	}
	end, ok := o.begin(w, actionTimeout)
	if !ok {
		return
	}
	defer end()
	ctx, cancel := context.WithTimeout(r.Context(), actionTimeout)
	defer cancel()
	el, err := o.quorum.Election(req.Election)
	if err != nil { // someone has made a key with an invalid name
		refuse(w, http.StatusBadRequest, "%s", problemText(err))
		return
	}
	if !o.cache.has(kindRow, req.Election) && len(o.elections) == 0 { // without viewers the cache is empty
		if err := exists(ctx, el); err != nil {
			answer(w, "", err)
			return
		}
	}
	by := o.visitors.operator(r, req.By)
	done, err := do(ctx, el.As(by), req)
	o.log.Info("operator action", "action", name, "election", req.Election, "to", req.To, "by", by, "from", r.RemoteAddr, "reason", bounded(req.Reason), "result", done, "error", problemText(err))
	answer(w, done, err)
}

// shows reports whether the console shows an election: all elections, or those that were named or
// whose group was named.
func (o *operators) shows(election string) bool {
	if len(o.elections) == 0 || slices.Contains(o.elections, election) {
		return true
	}
	group, _, is := shard.OfElection(election)
	return is && slices.Contains(o.elections, group)
}

// permitted reads a request and checks its token. If it returns false, it has answered the request.
func (o *operators) permitted(w http.ResponseWriter, r *http.Request) (req actionRequest, ok bool) {
	if o.bearer == nil {
		refuse(w, http.StatusForbidden, "not enabled here: start mandate console with --actions")
		return req, false
	}
	switch o.bearer.Check(w, r) {
	case http.StatusUnauthorized:
		refuse(w, http.StatusUnauthorized, "the token is wrong")
		return req, false
	case http.StatusTooManyRequests:
		refuse(w, http.StatusTooManyRequests, tooManyTokens, w.Header().Get("Retry-After"))
		return req, false
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "send Content-Type: application/json")
		return req, false
	}
	req, err := read(r.Body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "not an operator action: %v", err)
		return req, false
	}
	if req.By != printable(req.By) {
		refuse(w, http.StatusBadRequest, "by is %.120q: a name of at most %d bytes, without control characters", req.By, maxBy)
		return req, false
	}
	return req, true
}

// begin reserves one of maxActions places. If none is free, it answers the request and returns
// false.
func (o *operators) begin(w http.ResponseWriter, within time.Duration) (end func(), ok bool) {
	select {
	case o.running <- struct{}{}:
	default:
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "%d operator actions are under way: try again", maxActions)
		return nil, false
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within + writeTimeout)) // not every ResponseWriter supports this
	return func() { <-o.running }, true
}

// read decodes exactly one request.
func read(body io.Reader) (actionRequest, error) {
	var req actionRequest
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	var wrong *json.UnmarshalTypeError
	switch err := d.Decode(&req); {
	case errors.As(err, &wrong) && wrong.Field != "":
		return actionRequest{}, fmt.Errorf("%s must be of type %v, and is a %s", wrong.Field, kindOf(wrong.Type), wrong.Value)
	case err != nil:
		return actionRequest{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return actionRequest{}, errors.New("something follows it")
	}
	return req, nil
}

// kindOf returns the name of a Go type in JSON.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Bool:
		return "boolean"
	default:
		return "string"
	}
}

// errUnknownElection is the answer to a name of which Redis knows nothing.
var errUnknownElection = errors.New("no such election: no candidate has ever led it, and none answers")

// exists returns nil for an election that has left a trace in Redis, or has candidates. Other names
// are refused, so that no misspelt name is paused.
func exists(ctx context.Context, el *elector.Election) error {
	st, err := el.Status(ctx)
	if err != nil {
		return err
	}
	if st.Traced() {
		return nil
	}
	if roll, err := el.Candidates(ctx); err != nil || len(roll) > 0 {
		return err
	}
	return errUnknownElection
}

func answer(w http.ResponseWriter, done string, err error) {
	code := http.StatusOK
	switch {
	case err == nil:
		reply(w, code, actionResult{done})
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

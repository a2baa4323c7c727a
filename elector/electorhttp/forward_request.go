package electorhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var (
	errRefused   = errors.New("the replica that was the leader does not lead")
	errNoLeader  = errors.New("no candidate leads")
	errOverdue   = errors.New("another candidate leads, and the former leader has not answered")
	errLoop      = errors.New("the app has sent it back to the replica that it came from (--forward-to must be the program's own address)")
	errBodySpent = errors.New("its body is too long to be kept, and was sent already")
)

// pending is a request until it has been answered.
type pending struct {
	in    *http.Request
	limit time.Time // until when it may wait

	forwarded bool   // another replica has forwarded it, believing that this one leads
	believed  uint64 // forwarded: in the term with this token

	kept    []byte      // the part of the body that was read, to send it again
	whole   bool        // kept has the whole body
	touched atomic.Bool // a body that can't be sent again was read
	crowded bool        // too many other requests wait
	unknown bool        // it may have been executed
	lost    int         // how often it was sent and not answered
}

// keep reads the body, so that it can be sent again, unless it is too long.
func (p *pending) keep(most int64) error {
	if p.whole || p.kept != nil || p.in.ContentLength > most {
		return nil
	}
	if p.in.Body == nil || p.in.Body == http.NoBody {
		p.whole = true
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(p.in.Body, most+1))
	if err != nil {
		return &bodyError{err} // a second attempt would send the rest as the whole body
	}
	p.kept, p.whole = b, int64(len(b)) <= most
	return nil
}

// body returns a reader of the body to send.
func (p *pending) body() io.ReadCloser {
	switch {
	case p.whole && len(p.kept) == 0:
		return http.NoBody
	case p.whole:
		return io.NopCloser(bytes.NewReader(p.kept))
	case p.in.Body == nil:
		return nil
	default:
		return &once{p, io.MultiReader(bytes.NewReader(p.kept), p.in.Body)}
	}
}

// once is a body that can be read only once.
type once struct {
	p *pending
	io.Reader
}

func (o *once) Read(b []byte) (int, error) { o.p.touched.Store(true); return o.Reader.Read(b) }
func (o *once) Close() error               { return nil } // the server closes the body after the answer

// again reports whether the request may be sent again after an error.
func (p *pending) again(err error) bool {
	var body *bodyError
	var lost *lostError
	if p.in.Context().Err() != nil || errors.As(err, &body) || errors.Is(err, errLoop) {
		p.unknown = p.unknown || errors.As(err, &lost) // it was sent before its server cut it off
		return false                                   // the client is gone or has sent only a part, or it is a loop
	}
	var program *programError
	if errors.As(err, &program) && !program.notSent {
		p.unknown = true
		return false
	}
	if errors.As(err, &lost) && (p.touched.Load() || !p.idempotent()) {
		p.unknown = true
		return false
	}
	if lost != nil {
		p.lost++
		p.unknown = !p.forwarded // a forwarded request is sent again by the other replica
	}
	if p.touched.Load() {
		return false
	}
	return !p.forwarded || !errors.Is(err, errRefused)
}

// replayable reports whether to keep the body even before this replica's own app serves the request, to
// send the request again when the end of the term cuts it off. If another replica has forwarded it
// with an Expect header, that replica could not keep the body, and can send it only once. Such a body
// must stay unsent, and so unread, until it is known that this replica leads.
func (p *pending) replayable() bool {
	return p.idempotent() && !(p.forwarded && p.in.Header.Get("Expect") != "")
}

func (p *pending) idempotent() bool {
	switch p.in.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return p.in.Header.Get("Idempotency-Key") != ""
}

// lostError is the error of a request that was sent and not answered.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// bodyError is the error of a request whose body did not arrive completely.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return "its body: " + e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// leaderURL returns the URL of the leader's Forward handler.
func leaderURL(l Leadership) (*url.URL, error) {
	if l.Address == "" {
		return nil, fmt.Errorf("the leader %s advertises no address: give each candidate the URL at which the others reach it (Config.Advertise, --advertise)", l.Leader)
	}
	address := l.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the leader %s advertises %q, which is no URL such as http://10.0.0.7:8080 (Config.Advertise, --advertise)", l.Leader, l.Address)
	}
	return u, nil
}

// attempt is one attempt to send a request to the leader.
type attempt struct {
	p        *pending
	target   *url.URL
	from     string        // the id of this replica's candidate
	token    uint64        // of the term that is believed to be valid
	sent     atomic.Bool   // the headers were written
	traced   atomic.Bool   // the transport reports to httptrace; else nothing proves that the request was not sent
	answered chan struct{} // closed when the headers of the answer have arrived
	done     bool          // answered is closed
	err      error
}

type attemptKey struct{}

// overdue is how long an answer may take once another candidate leads. The former leader has answered
// all requests that it has executed before it released the lock, but an answer may still be under way.
const overdue = time.Second

// giveUp cancels a request if another candidate leads and the former leader does not answer it.
func (a *attempt) giveUp(ctx context.Context, cancel context.CancelCauseFunc, next <-chan struct{}) {
	select {
	case <-a.answered:
		return
	case <-ctx.Done():
		return
	case <-next:
	}
	limit := time.NewTimer(overdue)
	defer limit.Stop()
	select {
	case <-a.answered:
	case <-ctx.Done():
	case <-limit.C:
		cancel(errOverdue)
	}
}

func attemptOf(r *http.Request) *attempt { return r.Context().Value(attemptKey{}).(*attempt) }

func rewrite(pr *httputil.ProxyRequest) {
	a, head := attemptOf(pr.Out), pr.Out.Header
	pr.SetURL(a.target)
	continueForwarded(pr)
	head.Set(forwardedHeader, a.from)
	head.Set(tokenHeader, strconv.FormatUint(a.token, 10))
	head.Set(heldHeader, strconv.FormatInt(max(0, time.Until(a.p.limit)).Milliseconds(), 10))
	head.Del("Expect")
	if !a.p.whole {
		head.Set("Expect", "100-continue") // a replica that refuses the request must not have read its body
	}
}

// check handles the headers of the answer. Not every transport sets the response's Request.
func (a *attempt) check(resp *http.Response) error {
	if resp.Header.Get(notLeaderHeader) != "" {
		return errRefused
	}
	a.done = true
	close(a.answered)
	return nil
}

func broken(_ http.ResponseWriter, r *http.Request, err error) { attemptOf(r).err = err }

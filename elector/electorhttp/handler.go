package electorhttp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
)

// Config configures a Handler or a Group. The zero value of a field means its default.
type Config struct {
	// Token enables POST /resign and /transfer for anyone who sends it as a bearer
	// token. At least 16 bytes. Default: both are refused.
	Token string
	// Hosts are the host names under which the Handler is reached, in addition to
	// localhost and IP addresses. All other names are refused, because a web site can
	// point a name of its own at this server and read the answers in its visitors'
	// browsers. Default: no names if Serve listens on a loopback address, for which no
	// other machine has a name. On any other address, and if the Handler is mounted on a
	// server of yours, all names are accepted by default, and you must protect the server.
	Hosts []string
	// Logger gets a line for wrong tokens. Default slog.Default().
	Logger *slog.Logger
	// Promise is the longest time for which an answer of /leader may be relied on,
	// and so the longest time for which a worker can delay a planned change of the
	// leader. A promise is shorter if less is left of the lease. It needs Work, which
	// keeps the promises. Default a fifth of the lease; negative: nothing is promised.
	Promise time.Duration
	// Health serves /live and /ready; use healthhttp.Handler, for example. Default: /live
	// is always 200, and /ready calls Elector.Check.
	Health http.Handler
	// Metrics serves /metrics. Default: 404.
	Metrics http.Handler
	// Heartbeat is how often a comment is sent on a quiet stream of events.
	// Default: a quarter of the lease, at most 10 s.
	Heartbeat time.Duration
	// MaxStreams is how many streams of events are served at a time; further ones are
	// refused with 503. Default 64.
	MaxStreams int
}

// minToken is the shortest token in bytes, so that tokens can't be guessed.
const minToken = 16

// Limits on what a client may cost.
const (
	writeTimeout = 5 * time.Second  // for a piece of an answer: a slower client is cut off
	readTimeout  = 10 * time.Second // for a request
	queryTimeout = 4 * time.Second  // for a query of Redis
	maxQueries   = 8                // requests that query Redis at a time
	maxBody      = 1 << 10
	maxHeader    = 16 << 10
)

// Handler serves an Elector over HTTP. Safe for concurrent use. /leader, /status and
// /history work without Run; /events, and the name of a leader elsewhere, need Run.
type Handler struct {
	elector *elector.Elector
	cfg     Config
	mux     *http.ServeMux
	journal *journal
	running atomic.Bool
	streams chan struct{}
	queries chan struct{}

	bearer   *webguard.Bearer         // nil: there is no token
	promised atomic.Pointer[promises] // of the newest term for which Promise was called
}

// ServeHTTP answers a request. Bodies are read up to 1 KiB.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serve(w, r, len(h.cfg.Hosts) > 0)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, namesMatter bool) {
	if h.cfg.admit(w, r, namesMatter) {
		h.mux.ServeHTTP(w, r)
	}
}

// admit refuses foreign host names, and limits the body. It reports whether the request may be served.
func (c *Config) admit(w http.ResponseWriter, r *http.Request, namesMatter bool) bool {
	// Browsers always send a Host header; some health checks of load balancers send none.
	if namesMatter && r.Host != "" && !webguard.Expected(r.Host, c.Hosts) {
		refuse(w, http.StatusMisdirectedRequest, "not served under this name: allow it by Config.Hosts")
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	w.Header().Set("Cache-Control", "no-store") // a cached leader is a former leader
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return true
}

// Run follows the election until ctx ends; then it returns, and all streams of
// events end. It returns an error only if the Handler runs already.
func (h *Handler) Run(ctx context.Context) error {
	if !h.running.CompareAndSwap(false, true) {
		return errors.New("electorhttp: the handler is running already")
	}
	defer h.running.Store(false)
	h.journal.open()
	defer h.journal.close()
	for ev := range h.elector.Election().Observe(ctx) {
		h.journal.add(ev)
	}
	return nil
}

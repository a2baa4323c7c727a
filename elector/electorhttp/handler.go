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

// Config is what a Handler serves beside who leads.
type Config struct {
	// Token enables POST /resign and /transfer for anyone who sends it as a bearer
	// token. At least 16 bytes. Default: both are refused.
	Token string
	// Hosts are names under which the Handler is reached, beside localhost and
	// addresses; all others are refused, because a web site can point a name of its
	// own at this server and read the answers in its visitors' browsers. Default:
	// none where Handler.Serve listens on a loopback address, which no other machine
	// has a name for; anything elsewhere, and where the Handler is mounted on a
	// server of yours, which is then yours to protect.
	Hosts []string
	// Logger gets a line for wrong tokens. Default slog.Default().
	Logger *slog.Logger
	// Promise is the longest time for which an answer of /leader may be relied on,
	// and so the longest that a worker beside can hold up a planned change of the
	// leader. Default a fifth of the lease; less when less is left of the lease;
	// negative: nothing is promised. Needs Work, which keeps it.
	Promise time.Duration
	// Health serves /live and /ready; healthhttp.Handler does. Default: /live is
	// always 200, and /ready calls Elector.Check.
	Health http.Handler
	// Metrics serves /metrics. Default: 404.
	Metrics http.Handler
	// Heartbeat is how often a comment is sent on a quiet stream of events.
	// Default: a quarter of the lease, at most 10 s.
	Heartbeat time.Duration
	// MaxStreams is how many streams of events are served at a time; one more is
	// refused with 503. Default 64.
	MaxStreams int
}

// minToken keeps tokens from being guessed.
const minToken = 16

// Bounds of what a client may cost.
const (
	writeTimeout = 5 * time.Second  // for a piece of an answer: a slower client is cut off
	readTimeout  = 10 * time.Second // for a request
	queryTimeout = 4 * time.Second  // for a query of Redis
	maxQueries   = 8                // requests that query Redis at a time
	maxBody      = 1 << 10
	maxHeader    = 16 << 10
)

// Handler serves an Elector. Safe for concurrent use. /leader, /status and
// /history work at once; who leads elsewhere, and /events, need Run.
type Handler struct {
	elector *elector.Elector
	cfg     Config
	mux     *http.ServeMux
	journal *journal
	running atomic.Bool
	streams chan struct{}
	queries chan struct{}

	bearer   *webguard.Bearer         // nil: there is no token
	promised atomic.Pointer[promises] // of the newest term that has any
}

// ServeHTTP answers. Bodies are read up to 1 KiB.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.serve(w, r, len(h.cfg.Hosts) > 0)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, namesMatter bool) {
	if h.cfg.admit(w, r, namesMatter) {
		h.mux.ServeHTTP(w, r)
	}
}

// admit refuses foreign names, and bounds what a request may cost.
func (c *Config) admit(w http.ResponseWriter, r *http.Request, namesMatter bool) bool {
	// Browsers always send a name; some health checks of load balancers send none.
	if namesMatter && r.Host != "" && !webguard.Expected(r.Host, c.Hosts) {
		refuse(w, http.StatusMisdirectedRequest, "not served under this name: allow it by Config.Hosts, or with --http-host")
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	w.Header().Set("Cache-Control", "no-store") // a cached leader is a former leader
	w.Header().Set("X-Content-Type-Options", "nosniff")
	return true
}

// Run follows the election until ctx ends; then it returns, and all streams of
// events end. The error is for a Handler that runs already.
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

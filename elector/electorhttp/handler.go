package electorhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
	"github.com/mandate-dev/mandate/elector/internal/setting"
)

// Config configures a Handler. The zero value of a field means its default.
type Config struct {
	// Token enables POST /resign for anyone who sends it as a bearer token. At least 16
	// bytes. Default: it is refused.
	Token string
	// Logger gets a line for wrong tokens, and for foreign host names. Default slog.Default().
	Logger *slog.Logger
	// Promise is the longest time for which an answer of /leader may be relied on,
	// and so the longest time for which a worker can delay a planned change of the
	// leader. A promise is shorter if less is left of the lease. It needs Work, which
	// keeps the promises. Default a fifth of the lease; negative: nothing is promised.
	Promise time.Duration
	// Metrics serves /metrics. Default: 404.
	Metrics http.Handler
}

// minToken is the shortest token in bytes, so that tokens can't be guessed.
const minToken = 16

// Limits on what a client may cost.
const (
	writeTimeout = 5 * time.Second  // for a piece of an answer: a slower client is cut off
	readTimeout  = 10 * time.Second // for a request
	queryTimeout = 4 * time.Second  // for a query of Redis
	maxQueries   = 8                // requests that query Redis at a time
	maxStreams   = 64               // streams of events at a time
	maxBody      = 1 << 10
	maxHeader    = 16 << 10
)

// Handler serves an Elector over HTTP. Safe for concurrent use. /leader and /status work
// without Run; /events, and the name of a leader elsewhere, need Run.
type Handler struct {
	elector *elector.Elector
	cfg     Config
	mux     *http.ServeMux
	streams chan struct{}
	queries chan struct{}

	bearer   *webguard.Bearer // nil: there is no token
	running  atomic.Pointer[context.Context]
	elected  atomic.Pointer[elector.Event] // of the leader, as Run was last told; nil: none
	promised atomic.Pointer[promises]      // of the newest term
}

// New makes a Handler. It does no I/O.
func New(e *elector.Elector, cfg Config) (*Handler, error) {
	if e == nil {
		return nil, errors.New("electorhttp: the elector is nil")
	}
	if cfg.Token != "" && len(cfg.Token) < minToken {
		return nil, fmt.Errorf("electorhttp: Token is %d bytes long: use at least %d random ones", len(cfg.Token), minToken)
	}
	if err := setting.CheckUnit("Promise", cfg.Promise); err != nil {
		return nil, fmt.Errorf("electorhttp: %w", err)
	}
	cfg.Promise = cmp.Or(cfg.Promise, e.Lease()/5)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	h := &Handler{
		elector: e, cfg: cfg, mux: http.NewServeMux(),
		streams: make(chan struct{}, maxStreams), queries: make(chan struct{}, maxQueries),
	}
	if cfg.Token != "" {
		h.bearer = webguard.NewBearer(cfg.Token, cfg.Logger)
	}
	h.mux.HandleFunc("GET /{$}", h.leader) // what HAProxy checks by default, with OPTIONS
	h.mux.HandleFunc("GET /leader", h.leader)
	h.mux.HandleFunc("GET /status", h.status)
	h.mux.HandleFunc("GET /events", h.events)
	h.mux.HandleFunc("POST /resign", h.resign)
	h.mux.HandleFunc("GET /live", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]bool{"live": true})
	})
	h.mux.HandleFunc("GET /ready", h.ready)
	if cfg.Metrics != nil {
		h.mux.Handle("GET /metrics", cfg.Metrics)
	}
	return h, nil
}

// ServeHTTP answers a request, under any host name. Bodies are read up to 1 KiB. HEAD and OPTIONS get the
// status of GET, and promise nothing.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions { // of a load balancer, which looks at the status only
		head := *r
		head.Method = http.MethodHead
		r = &head
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	w.Header().Set("Cache-Control", "no-store") // a cached leader is a former leader
	w.Header().Set("X-Content-Type-Options", "nosniff")
	h.mux.ServeHTTP(w, r)
}

// Run follows the election until ctx ends; then it returns, and all streams of
// events end. It returns an error only if the Handler runs already.
func (h *Handler) Run(ctx context.Context) error {
	if !h.running.CompareAndSwap(nil, &ctx) {
		return errors.New("electorhttp: the handler is running already")
	}
	defer h.running.Store(nil)
	defer h.elected.Store(nil) // the end of that term would not be noticed
	for ev := range h.elector.Election().Observe(ctx) {
		switch ev.Kind { // the newest event is right, even if its token is lower; the others do not change who leads
		case elector.EventElected:
			h.elected.Store(&ev)
		case elector.EventReleased, elector.EventVacant:
			h.elected.Store(nil)
		}
	}
	return nil
}

// failure is the body of an answer with an error.
type failure struct {
	Error          string    `json:"error"`
	UnhealthySince time.Time `json:"unhealthy_since,omitzero"` // of GET /ready
}

func refuse(w http.ResponseWriter, code int, format string, args ...any) {
	reply(w, code, failure{Error: fmt.Sprintf(format, args...)})
}

func reply(w http.ResponseWriter, code int, v any) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)              // keep addresses readable, without \u0026; safe because the content type is JSON
	if err := e.Encode(v); err != nil { // strings, numbers and times
		panic("electorhttp: an answer that can't be encoded: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body.Bytes()) // the client may be gone
}

package electorhttp

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
)

// New makes a Handler. It does no I/O.
func New(e *elector.Elector, cfg Config) (*Handler, error) {
	if e == nil {
		return nil, errors.New("electorhttp: the elector is nil")
	}
	if err := cfg.complete(e.Lease()); err != nil {
		return nil, err
	}
	h := &Handler{
		elector: e, cfg: cfg, mux: http.NewServeMux(), journal: newJournal(),
		streams: make(chan struct{}, cfg.MaxStreams), queries: make(chan struct{}, maxQueries),
	}
	if cfg.Token != "" {
		h.bearer = webguard.NewBearer(cfg.Token, cmp.Or(cfg.Logger, slog.Default()))
	}
	h.mux.HandleFunc("GET /leader", h.leader)
	h.mux.HandleFunc("GET /status", h.status)
	h.mux.HandleFunc("GET /history", h.history)
	h.mux.HandleFunc("GET /candidates", h.candidates)
	h.mux.HandleFunc("GET /events", h.events)
	h.mux.HandleFunc("POST /stopped", h.stopped)
	h.mux.HandleFunc("POST /resign", h.guarded(h.resign))
	h.mux.HandleFunc("POST /transfer", h.guarded(h.transfer))
	cfg.monitor(h.mux, h.elector.Check, h.unhealthySince)
	h.mux.HandleFunc("GET /{$}", h.index)
	return h, nil
}

// monitor adds the routes for orchestrators and Prometheus: /live, /ready and /metrics.
func (c *Config) monitor(mux *http.ServeMux, check func() error, since func() time.Time) {
	if c.Health != nil {
		mux.Handle("/live", c.Health)
		mux.Handle("/ready", c.Health)
	} else {
		mux.HandleFunc("GET /live", live)
		mux.HandleFunc("GET /ready", readiness(check, since))
	}
	if c.Metrics != nil {
		mux.Handle("GET /metrics", c.Metrics)
	}
}

// complete checks the configuration, and fills in the defaults.
func (c *Config) complete(lease time.Duration) error {
	var problems []error
	if c.Token != "" && len(c.Token) < minToken {
		problems = append(problems, fmt.Errorf("electorhttp: Token is %d bytes long: use at least %d random ones", len(c.Token), minToken))
	}
	if c.Heartbeat < 0 || c.MaxStreams < 0 {
		problems = append(problems, errors.New("electorhttp: Heartbeat and MaxStreams must not be negative"))
	}
	for _, name := range c.Hosts {
		if err := webguard.CheckName(name); err != nil {
			problems = append(problems, fmt.Errorf("electorhttp: Hosts: %q is %w", name, err))
		}
	}
	c.Heartbeat = cmp.Or(c.Heartbeat, min(lease/4, 10*time.Second))
	c.MaxStreams = cmp.Or(max(c.MaxStreams, 0), 64)
	c.Promise = cmp.Or(c.Promise, lease/5)
	return errors.Join(problems...)
}

func live(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]bool{"live": true})
}

// index serves GET /: the endpoints, for a person who opens the address.
func (h *Handler) index(w http.ResponseWriter, _ *http.Request) {
	endpoints := map[string]string{
		"GET /leader":     "200 on the leader, 503 elsewhere: who leads, the token, and for how long that is promised",
		"GET /status":     "the leader and the state of every Redis node",
		"GET /history":    "the latest terms and why each ended; ?n=20",
		"GET /candidates": "all candidates with role and health",
		"GET /events":     "the state, then every change, as server-sent events",
		"GET /live":       "200 if the process answers",
		"GET /ready":      "200 if this candidate can campaign",
		"POST /stopped":   "a worker reports that it has stopped",
	}
	if h.cfg.Metrics != nil {
		endpoints["GET /metrics"] = "for Prometheus"
	}
	if h.bearer != nil {
		endpoints["POST /resign"] = "this candidate steps down; with the token"
		endpoints["POST /transfer"] = "the leader hands over; ?to=ID, with the token"
	}
	reply(w, http.StatusOK, index{h.elector.Election().Name(), h.elector.ID(), endpoints})
}

// index is the body of GET /.
type index struct {
	Election  string            `json:"election"`
	Candidate string            `json:"candidate"`
	Endpoints map[string]string `json:"endpoints"`
}

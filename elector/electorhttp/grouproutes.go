package electorhttp

import (
	"errors"
	"net/http"
	"time"

	"github.com/mandate-dev/mandate/elector/shard"
)

// NewGroup makes a Group for a member. It does no I/O. It uses Config.Hosts, Promise, Heartbeat,
// MaxStreams, Metrics and Health. A Token is refused: a Group has no request that needs one.
func NewGroup(m *shard.Member, cfg Config) (*Group, error) {
	if m == nil {
		return nil, errors.New("electorhttp: the member is nil")
	}
	if cfg.Token != "" {
		return nil, errors.New("electorhttp: Token is for the Handler of an Elector: a Group has no request that changes anything")
	}
	if err := cfg.complete(m.Lease()); err != nil {
		return nil, err
	}
	g := &Group{
		member: m, cfg: cfg, mux: http.NewServeMux(), streams: make(chan struct{}, cfg.MaxStreams),
		ended: make(chan struct{}), held: map[int]heldShard{}, changed: make(chan struct{}),
	}
	g.mux.HandleFunc("GET /shards", g.shards)
	g.mux.HandleFunc("GET /shards/{shard}", g.oneShard)
	g.mux.HandleFunc("GET /owner", g.owner)
	g.mux.HandleFunc("GET /events", g.events)
	g.mux.HandleFunc("POST /stopped", g.stopped)
	for _, of := range []string{"leader", "status", "history", "candidates"} {
		g.mux.HandleFunc("GET /"+of, g.noElection)
	}
	cfg.monitor(g.mux, m.Check, func() time.Time { return time.Time{} })
	g.mux.HandleFunc("GET /{$}", g.index)
	return g, nil
}

// index serves GET /: the endpoints, for a person who opens the address.
func (g *Group) index(w http.ResponseWriter, _ *http.Request) {
	endpoints := map[string]string{
		"GET /shards":   "the shards that this member owns, their tokens, and for how long that is promised",
		"GET /shards/N": "200 on the owner of shard N, 503 elsewhere: who owns it",
		"GET /owner":    "the same of the shard of a key; ?key=KEY",
		"GET /events":   "the shards that this member owns, after every change, as server-sent events",
		"GET /live":     "200 if the process answers",
		"GET /ready":    "200 if this member can be given shards",
		"POST /stopped": "a worker reports that it has stopped; ?worker=NAME&shard=N&token=TOKEN",
	}
	if g.cfg.Metrics != nil {
		endpoints["GET /metrics"] = "for Prometheus"
	}
	reply(w, http.StatusOK, groupIndex{g.member.Group(), g.member.ID(), endpoints})
}

// noElection answers requests that only the Handler of an election serves: a program that was made for
// an election finds out where to look.
func (g *Group) noElection(w http.ResponseWriter, r *http.Request) {
	refuse(w, http.StatusNotFound, "%s is of one election, and %s is a group of shards: GET /shards has those that this member owns, GET /shards/N and GET /owner?key=KEY the owner of one", r.URL.Path, g.member.Group())
}

// groupIndex is the body of GET /.
type groupIndex struct {
	Group     string            `json:"group"`
	Member    string            `json:"member"`
	Endpoints map[string]string `json:"endpoints"`
}

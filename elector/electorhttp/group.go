package electorhttp

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// Group serves over HTTP which shards a member of a group owns, to a program in any language
// that works on them beside the member. It lists only shards for which Promise was called, which
// Work does. Safe for concurrent use.
//
//	GET  /shards          what this member owns, with tokens and promises, as JSON
//	GET  /shards/N        200 on the owner of shard N, 503 elsewhere; who owns it
//	GET  /owner?key=KEY   the same for the shard to which the key belongs; promises nothing
//	POST /stopped         a worker reports that it has stopped (?worker=, &shard=, &token=)
//	GET  /events          what this member owns after every change, as server-sent events
//	GET  /live            200 as long as this process answers
//	GET  /ready           200 when this member can be given shards
//
// /shards makes a promise about each shard, as a Handler's /leader does about its term, and the same
// rules hold for the worker.
type Group struct {
	member  *shard.Member
	cfg     Config
	mux     *http.ServeMux
	streams chan struct{}
	ended   chan struct{} // closed when Serve ends, to end all streams
	ending  sync.Once

	mu      sync.Mutex // guards all below
	held    map[int]heldShard
	changed chan struct{} // closed by the next change
}

// heldShard is the newest term of a shard, with its promises.
type heldShard struct {
	term   *elector.Term
	shards int
	p      *promises
}

// ServeHTTP answers a request. Bodies are read up to 1 KiB.
func (g *Group) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.serve(w, r, len(g.cfg.Hosts) > 0)
}

func (g *Group) serve(w http.ResponseWriter, r *http.Request, namesMatter bool) {
	if g.cfg.admit(w, r, namesMatter) {
		g.mux.ServeHTTP(w, r)
	}
}

// Serve serves until ctx ends. Then it ends all streams, and lets other requests under way finish for
// at most 2 s. It closes the listener. The error is nil after ctx has ended, or that of the listener.
// On a loopback address it refuses foreign names: see Config.Hosts.
func (g *Group) Serve(ctx context.Context, l net.Listener) error {
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.serve(w, r, len(g.cfg.Hosts) > 0 || loopback(l.Addr()))
	}))
	server.RegisterOnShutdown(func() { g.ending.Do(func() { close(g.ended) }) })
	return Serve(ctx, server, l)
}

// Promise lets /shards list the shard, and promise for how long a worker may rely on that, while the
// term is valid. The caller must call Lapse before the work of the term returns. Work does both.
func (g *Group) Promise(term *shard.Term) {
	g.mu.Lock()
	g.held[term.Shard] = heldShard{term.Term, term.Shards, newPromises(term.Term)}
	g.mu.Unlock()
	g.change()
	context.AfterFunc(term.Context(), g.change)
}

// Work wraps work so that a shard is not released before all promises that /shards made about it have
// lapsed, or were given back (POST /stopped). That takes at most Config.Promise after work has
// returned, or after the term's end if that is earlier.
func (g *Group) Work(work shard.Work) shard.Work {
	return func(ctx context.Context, term *shard.Term) error {
		g.Promise(term)
		defer g.Lapse(term, 0) // also when the work panics
		return work(ctx, term)
	}
}

// Lapse makes no more promises about a shard's term: from now on /shards does not list the shard.
// Lapse returns when every promise has lapsed and grace is over, or as soon as no promise is left and
// a worker has reported that it has stopped; then stopped is true. It blocks for at most
// Config.Promise or grace, whichever is longer.
func (g *Group) Lapse(term *shard.Term, grace time.Duration) (stopped bool) {
	over := time.Now().Add(grace)
	held := g.of(term.Shard)
	if held.p == nil || held.p.token != term.Token() {
		time.Sleep(grace)
		return false
	}
	held.p.close()
	g.change()
	return held.p.lapse(over)
}

func (g *Group) of(shard int) heldShard {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held[shard]
}

// change wakes the streams.
func (g *Group) change() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.changed)
	g.changed = make(chan struct{})
}

// Ownership is the body of GET /shards and, without promises, of each event.
type Ownership struct {
	Group  string       `json:"group"`
	Member string       `json:"member"` // the id of this member
	Shards int          `json:"shards"` // how many the group has
	Owned  []OwnedShard `json:"owned"`  // by this member, in ascending order
}

// OwnedShard is a shard that this member owns.
type OwnedShard struct {
	Shard  int    `json:"shard"`
	Shards int    `json:"shards"` // the number of shards: the work covers the keys of Shard out of Shards
	Token  uint64 `json:"token"`
	// ValidFor is how long a worker may work on the shard, in ms counted from before it sent the
	// request. The shard is not released before. 0, or left out: not at all.
	ValidFor int64 `json:"valid_for_ms,omitempty"`
}

// ownership lists the shards for which take returns true, with the promises that take returns.
func (g *Group) ownership(take func(heldShard) (valid time.Duration, ok bool)) Ownership {
	g.mu.Lock()
	all := maps.Clone(g.held)
	g.mu.Unlock()
	o := Ownership{Group: g.member.Group(), Member: g.member.ID(), Shards: g.member.Shards(), Owned: []OwnedShard{}}
	for _, s := range slices.Sorted(maps.Keys(all)) {
		if valid, ok := take(all[s]); ok {
			o.Owned = append(o.Owned, OwnedShard{Shard: s, Shards: all[s].shards, Token: all[s].p.token, ValidFor: valid.Milliseconds()})
		}
	}
	return o
}

// shards serves GET /shards.
func (g *Group) shards(w http.ResponseWriter, r *http.Request) {
	worker, most, err := g.cfg.promiseRequest(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	reply(w, http.StatusOK, g.ownership(func(h heldShard) (time.Duration, bool) { return h.p.give(h.term, worker, most) }))
}

// ShardOwner is the body of GET /shards/N and of GET /owner.
type ShardOwner struct {
	Group    string `json:"group"`
	Member   string `json:"member"` // the id of this member
	Shard    int    `json:"shard"`
	Owned    bool   `json:"owned"`             // by this member
	Owner    string `json:"owner"`             // empty: none, or not known. A hint, unless it is this member
	Address  string `json:"address,omitempty"` // where the owner can be reached
	Token    uint64 `json:"token,omitempty"`   // of this member's term
	ValidFor int64  `json:"valid_for_ms"`      // see OwnedShard
}

// oneShard serves GET /shards/N.
func (g *Group) oneShard(w http.ResponseWriter, r *http.Request) {
	s, err := strconv.Atoi(r.PathValue("shard"))
	if err != nil || s < 0 || s >= g.member.Shards() {
		refuse(w, http.StatusBadRequest, "the shards are 0 to %d", g.member.Shards()-1)
		return
	}
	worker, most, err := g.cfg.promiseRequest(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	g.answerOwner(w, s, worker, most)
}

// owner serves GET /owner?key=KEY.
func (g *Group) owner(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if !q.Has("key") {
		refuse(w, http.StatusBadRequest, "name the key: GET /owner?key=KEY")
		return
	}
	g.answerOwner(w, g.member.ShardOf(q.Get("key")), "", 0)
}

func (g *Group) answerOwner(w http.ResponseWriter, s int, worker string, most time.Duration) {
	o := ShardOwner{Group: g.member.Group(), Member: g.member.ID(), Shard: s}
	if h := g.of(s); h.p != nil {
		if valid, ok := h.p.give(h.term, worker, most); ok {
			o.Owned, o.Token, o.ValidFor = true, h.p.token, valid.Milliseconds()
		}
	}
	owner, _ := g.member.Owner(s)
	if o.Owned || owner.ID != o.Member { // this member does not serve a shard that it is about to lose or to get
		o.Owner, o.Address = cmp.Or(owner.ID, map[bool]string{true: o.Member}[o.Owned]), owner.Advertise
	}
	code := http.StatusServiceUnavailable
	if o.Owned {
		code = http.StatusOK
	}
	reply(w, code, o)
}

// stopped serves POST /stopped: a worker reports that it has stopped working on a shard whose term
// has ended.
func (g *Group) stopped(w http.ResponseWriter, r *http.Request) {
	worker, token, ok := readStopped(w, r)
	if !ok {
		return
	}
	s, err := strconv.Atoi(r.URL.Query().Get("shard"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "shard must be the number of the shard: POST /stopped?worker=NAME&shard=N&token=TOKEN")
		return
	}
	h := g.of(s)
	if h.p == nil {
		refuse(w, http.StatusConflict, "nothing is promised about shard %d here", s)
		return
	}
	h.p.replyStopped(w, worker, token, !h.term.Valid())
}

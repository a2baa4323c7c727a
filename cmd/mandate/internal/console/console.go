// Package console serves the page of `mandate console`: every election of a prefix, live, with
// buttons for operator actions.
//
// One watch follows the elections for all viewers, and only while there are viewers. It keeps the
// newest state of everything in a cache. Each viewer is sent what has changed since it was last
// served, so a slow viewer skips outdated states and costs no memory. Data from Redis may be
// hostile: its size is bounded here, and the page shows it only as text.
package console

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path"
	"sync"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
)

//go:embed page
var page embed.FS

// Config configures what a Console shows, and who may access it.
type Config struct {
	Quorum *elector.Quorum
	// Elections are the elections, or groups of shards, to show. Default: all of the Quorum's
	// prefix.
	Elections []string
	// Token enables the buttons for anyone who knows it. At least 16 bytes. Default: no buttons.
	Token string
	// Hosts are the host names under which the page may be requested, besides localhost and IP
	// addresses. Other names are refused: a hostile site could point its own name here, to read the
	// page in its visitors' browsers (DNS rebinding).
	Hosts []string
	// MaxViewers is how many viewers are served at a time; further ones are refused. Default 64. A
	// page with an open election counts as two.
	MaxViewers int
	// MaxElections is how many elections are shown, besides the groups of shards. Default 2000.
	MaxElections int
	// ReadToken is required to read the page. At least 16 bytes. Default: anyone who can reach the
	// page may read it. It must differ from Token.
	ReadToken string
	// BasePath is the path at which a proxy serves the page, such as "/mandate". Default: "/".
	BasePath string
	// Proxies are the proxies whose X-Forwarded-For is trusted.
	Proxies []netip.Prefix
	Logger  *slog.Logger
}

const minToken = 16 // bytes

// Console serves the page. Make one with New.
type Console struct {
	mux           *http.ServeMux
	visitors      *visitors
	operators     *operators
	shardStatuses *shardStatuses
	watch         *watch
}

// New makes a Console. It does no I/O.
func New(cfg Config) (*Console, error) {
	for _, token := range []string{cfg.Token, cfg.ReadToken} {
		if token != "" && len(token) < minToken {
			return nil, fmt.Errorf("console: the token is %d bytes long: use at least %d random ones", len(token), minToken)
		}
	}
	if cfg.Token != "" && cfg.Token == cfg.ReadToken {
		return nil, errors.New("console: both tokens are the same: anyone who may read the page could act, too")
	}
	base, err := basePath(cfg.BasePath)
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, name := range cfg.Elections {
		if _, err := cfg.Quorum.Election(name); err != nil {
			problems = append(problems, err)
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	cache, viewers, attention, hosts := newCache(), newViewers(cmp.Or(cfg.MaxViewers, 64)), newAttention(), newHostCache()
	c := &Console{
		mux:      http.NewServeMux(),
		visitors: &visitors{base: base, hosts: cfg.Hosts, proxies: cfg.Proxies},
		watch: &watch{
			quorum: cfg.Quorum, elections: cfg.Elections, max: cmp.Or(cfg.MaxElections, maxShown), actions: cfg.Token != "", groups: map[string]bool{},
			viewers: viewers, display: display{cache: cache, nodes: newNodeCache(), attention: attention, hosts: hosts},
		},
	}
	c.operators = &operators{quorum: cfg.Quorum, elections: cfg.Elections, cache: cache, visitors: c.visitors, running: make(chan struct{}, maxActions), log: cfg.Logger}
	c.shardStatuses = &shardStatuses{quorum: cfg.Quorum, cache: cache, turns: make(turns, maxShardStatuses)}
	if cfg.Token != "" {
		c.operators.bearer = webguard.NewBearer(cfg.Token, cfg.Logger)
	}
	if cfg.ReadToken != "" {
		c.visitors.reader = webguard.NewBearer(cfg.ReadToken, cfg.Logger)
	}
	c.route(&streams{cache: cache, viewers: viewers, attention: attention, hosts: hosts})
	return c, nil
}

func (c *Console) route(live *streams) {
	c.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, page, "page/console.html") })
	files, err := fs.Glob(page, "page/*.*")
	if err != nil { // only for an invalid pattern
		panic("console: " + err.Error())
	}
	for _, file := range files {
		if name := path.Base(file); name != "console.html" {
			c.mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, page, file) })
		}
	}
	c.mux.HandleFunc("GET /api/live", live.serve)
	c.mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, healthy{"ok"}) })
	c.mux.HandleFunc("GET /api/shard", c.shardStatuses.serve)
	c.mux.HandleFunc("POST /api/drain", c.operators.drain)
	for name, do := range actions {
		c.mux.HandleFunc("POST /api/"+name, func(w http.ResponseWriter, r *http.Request) { c.operators.act(w, r, name, do) })
	}
}

// policy allows the page its own script and style, and nothing else: even if text from Redis was
// interpreted as markup, it could neither run nor load anything.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// healthy is the answer of /healthz: the console serves requests. It does not depend on Redis,
// whose state the page shows: a restart of the console would not fix Redis.
type healthy struct {
	Status string `json:"status"`
}

// ServeHTTP serves the page and its API.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if r, ok := c.visitors.admit(w, r); ok {
		c.mux.ServeHTTP(w, r)
	}
}

// Serve serves until ctx ends, and then requests under way for at most 2 s more. It closes the
// listener. It returns nil after ctx has ended, or the error of the listener.
func (c *Console) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() { c.watch.run(ctx) })
	server := electorhttp.NewServer(c)
	server.BaseContext = func(net.Listener) context.Context { return ctx } // so that streams end with ctx
	server.RegisterOnShutdown(cancel)                                      // also when the listener has failed
	return electorhttp.Serve(ctx, server, l)
}

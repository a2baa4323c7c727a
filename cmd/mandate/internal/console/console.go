// Package console is the page of `mandate console`: every election of a prefix,
// live, and what an operator can do about it.
//
// One watch follows the elections for all viewers, and only while there are any.
// It keeps the newest state of everything in a cache; each viewer gets what
// changed since it was served last, so a slow one skips what is outdated and
// costs no memory. What comes from Redis may be hostile: it is bounded here, and
// the page shows it as text only.
package console

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
)

//go:embed page
var page embed.FS

// Config says what a Console shows, and to whom.
type Config struct {
	Quorum *elector.Quorum
	// Elections are those to show. Default: all of the Quorum's prefix.
	Elections []string
	// Token enables the buttons for whoever knows it. At least 16 bytes. Default:
	// the page only shows.
	Token string
	// Hosts are names under which the page may be asked for, beside localhost and
	// addresses: other names are those of a site that points its own name here,
	// to read the page in its visitors' browsers.
	Hosts []string
	// MaxViewers are served at a time; one more is refused. Default 64: a page with an
	// open election is two.
	MaxViewers int
	// MaxElections are shown. Default 2000.
	MaxElections int
	// ReadToken is needed to see the page. At least 16 bytes. Default: whoever reaches
	// it sees it.
	ReadToken string
	// BasePath is where a proxy serves the page, such as "/mandate". Default: "/".
	BasePath string
	// Proxies are those whose X-Forwarded-For is believed.
	Proxies []netip.Prefix
	Logger  *slog.Logger
}

// Bounds of what a client may cost.
const (
	minToken     = 16
	maxBody      = 4 << 10
	maxOrders    = 4                // that are carried out at a time
	orderTimeout = 30 * time.Second // for the next leader
	writeTimeout = 5 * time.Second  // for a piece of a stream: a slower client is cut off
	beatEvery    = 10 * time.Second // on a quiet stream
	gather       = 50 * time.Millisecond
)

// Console serves the page. Make one with New.
type Console struct {
	cfg     Config
	mux     *http.ServeMux
	cache   *cache
	nodes   *nodeBoard
	viewers *viewers

	attention *attention

	orders chan struct{}
	base   string
	bearer *webguard.Bearer // nil: there are no buttons
	reader *webguard.Bearer // nil: anyone may read
}

// New makes a Console. It does no I/O.
func New(cfg Config) (*Console, error) {
	for _, token := range []string{cfg.Token, cfg.ReadToken} {
		if token != "" && len(token) < minToken {
			return nil, fmt.Errorf("console: the token is %d bytes long: use at least %d random ones", len(token), minToken)
		}
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
	cfg.MaxElections = cmp.Or(cfg.MaxElections, maxShown)
	c := &Console{
		cfg: cfg, mux: http.NewServeMux(), cache: newCache(), nodes: newNodeBoard(), attention: newAttention(),
		viewers: newViewers(cmp.Or(cfg.MaxViewers, 64)), orders: make(chan struct{}, maxOrders), base: base,
	}
	if cfg.Token != "" {
		c.bearer = webguard.NewBearer(cfg.Token, cfg.Logger)
	}
	if cfg.ReadToken != "" {
		c.reader = webguard.NewBearer(cfg.ReadToken, cfg.Logger)
	}
	for path, file := range map[string]string{
		"/{$}": "console.html", "/console.css": "console.css", "/icon.svg": "icon.svg",
		"/console.js": "console.js", "/card.js": "card.js", "/rows.js": "rows.js", "/table.js": "table.js", "/line.js": "line.js", "/timeline.js": "timeline.js", "/actions.js": "actions.js", "/text.js": "text.js",
	} {
		c.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, page, "page/"+file) })
	}
	c.mux.HandleFunc("GET /api/live", c.live)
	c.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, healthy{"ok"}) })
	for action, do := range actions {
		c.mux.HandleFunc("POST /api/"+action, func(w http.ResponseWriter, r *http.Request) { c.order(w, r, action, do) })
	}
	return c, nil
}

// policy leaves the page its own script and style, and nothing else: were foreign
// text ever taken for markup, it could still neither run nor load anything.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// healthy is the answer of /healthz: the console serves. It does not depend on Redis,
// whose state the page shows: a restart would not fix that.
type healthy struct {
	Status string `json:"status"`
}

// directKey is the context's key of the address that the connection comes from.
type directKey struct{}

// ServeHTTP answers.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	r, below := c.relative(w, r)
	if !below {
		return
	}
	if r.URL.Path == "/healthz" { // a kubelet or a load balancer asks, by any name
		c.mux.ServeHTTP(w, r)
		return
	}
	r = r.WithContext(context.WithValue(r.Context(), directKey{}, r.RemoteAddr))
	c.behindProxy(r)
	if !webguard.Expected(r.Host, c.cfg.Hosts) {
		refuse(w, http.StatusMisdirectedRequest, "not served under this name: mandate console --host NAME allows one")
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/") && webguard.CrossSite(r) {
		refuse(w, http.StatusForbidden, "requested by a page of another site")
		return
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		switch code := c.mayRead(w, r); code {
		case http.StatusOK:
		case http.StatusTooManyRequests:
			refuse(w, code, "too many wrong tokens: try again in %s s", w.Header().Get("Retry-After"))
			return
		default:
			refuse(w, code, "this page needs its read token, as the password")
			return
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	c.mux.ServeHTTP(w, r)
}

// Serve serves until ctx ends, and for at most 2 s more what is under way. It
// closes the listener. The error is nil after ctx ended, or the listener's.
func (c *Console) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() { c.watch(ctx) })
	server := electorhttp.NewServer(c)
	server.BaseContext = func(net.Listener) context.Context { return ctx } // streams end with it
	server.RegisterOnShutdown(cancel)                                      // also when the listener broke
	return electorhttp.Serve(ctx, server, l)
}

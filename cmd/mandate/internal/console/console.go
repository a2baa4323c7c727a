// Package console serves the page of `mandate console`: every election of a prefix, live and
// read-only.
//
// The caller shows rows, and is told when there is nobody to show them to. A Page keeps the newest
// state of every row. Each viewer is sent what has changed since it was last served, so a slow viewer
// skips outdated states and costs no memory. Data from Redis may be hostile: its size is bounded
// here, and the page shows it only as text.
package console

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electorhttp/webguard"
)

//go:embed page
var page embed.FS

// Config configures who may access a Page.
type Config struct {
	// Hosts are the host names under which the page may be requested, besides localhost and IP
	// addresses. Other names are refused: a hostile site could point its own name here, to read the
	// page in its visitors' browsers (DNS rebinding).
	Hosts []string
	// Token is required to read the page, as a bearer token or as the password of HTTP basic
	// authentication. Default: anyone who can reach the page may read it.
	Token string
	// MaxViewers is how many viewers are served at a time; further ones are refused. Default 64.
	MaxViewers int
	// Logger logs wrong tokens, and foreign host names. Default: slog.Default.
	Logger *slog.Logger
}

// Page is the page, and what is on it. Make one with New. Its methods are safe for concurrent use.
type Page struct {
	mux     *http.ServeMux
	hosts   []string
	reader  *webguard.Bearer // nil: anyone may read
	refused webguard.Refusals
	rows    *rows
	viewers *viewers
}

// New makes an empty Page. It does no I/O.
func New(cfg Config) *Page {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	p := &Page{
		mux: http.NewServeMux(), refused: webguard.Refusals{Log: cfg.Logger}, hosts: cfg.Hosts,
		rows:    &rows{newest: map[string]numbered{}, changed: make(chan struct{})},
		viewers: &viewers{max: cmp.Or(cfg.MaxViewers, 64), came: make(chan struct{}, 1)},
	}
	if cfg.Token != "" {
		p.reader = webguard.NewBearer(cfg.Token, cfg.Logger)
	}
	files, err := fs.Sub(page, "page")
	if err != nil { // only for an invalid path
		panic("console: " + err.Error())
	}
	p.mux.Handle("GET /", http.FileServerFS(files))
	p.mux.HandleFunc("GET /api/live", p.live)
	return p
}

// policy allows the page its own script and style, and nothing else: even if text from Redis was
// interpreted as markup, it could neither run nor load anything.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// ServeHTTP serves the page and its events. GET /healthz answers 200 to any client, and does not
// depend on Redis, whose state the page shows: a restart of the console would not fix Redis.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", policy)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	switch {
	case r.URL.Path == "/healthz": // load balancers and kubelets request it under any name
		reply(w, http.StatusOK, map[string]string{"status": "ok"})
	case p.refused.Foreign(r, p.hosts):
		refuse(w, http.StatusMisdirectedRequest, "not served under this name: mandate console --host NAME allows one")
	case strings.HasPrefix(r.URL.Path, "/api/") && webguard.CrossSite(r):
		refuse(w, http.StatusForbidden, "requested by a page of another site")
	case p.mayRead(w, r):
		p.mux.ServeHTTP(w, r)
	}
}

// mayRead checks the token. If it returns false, it has answered the request. Browsers ask for the
// token as a password, and send it with the request for the events, too.
func (p *Page) mayRead(w http.ResponseWriter, r *http.Request) bool {
	if p.reader == nil {
		return true
	}
	if _, sent, basic := r.BasicAuth(); basic {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+sent)
	}
	if p.reader.Check(w, r) {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="mandate", charset="UTF-8"`)
	refuse(w, http.StatusUnauthorized, "this page needs its token, as the password")
	return false
}

func refuse(w http.ResponseWriter, code int, why string) {
	reply(w, code, map[string]string{"error": why})
}

func reply(w http.ResponseWriter, code int, v map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

// Serve serves until ctx ends, and then requests under way for at most 2 s more. It closes the
// listener. It returns nil after ctx has ended, or the error of the listener.
func (p *Page) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := electorhttp.NewServer(p)
	server.BaseContext = func(net.Listener) context.Context { return ctx } // so that streams end with ctx
	return electorhttp.Serve(ctx, server, l)
}

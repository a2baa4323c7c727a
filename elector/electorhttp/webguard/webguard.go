// Package webguard protects the HTTP servers of the project against requests under a
// foreign host name, requests of other sites, and wrong tokens. It depends on the
// standard library only.
package webguard

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Expected reports whether host is a name of this server: localhost, an IP address, or
// one of names. With any other name, a web site may have pointed its own name at this
// server, to read the answers in its visitors' browsers (DNS rebinding).
func Expected(host string, names []string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")) != nil ||
		slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(strings.TrimSuffix(n, "."), host) })
}

// CrossSite reports whether the browser has marked a request as coming from a page of another site.
// That page can't read the answer, but the request may change something.
func CrossSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// logEvery is the least time between two log lines about refused requests.
const logEvery = time.Second

// Bearer lets requests with a token through, and logs wrong tokens. Guessing is not slowed down:
// the token must be long and random. Safe for concurrent use.
type Bearer struct {
	want     [sha256.Size]byte
	refusals Refusals
}

// NewBearer makes a Bearer for a token, which must not be empty.
func NewBearer(token string, log *slog.Logger) *Bearer {
	return &Bearer{want: sha256.Sum256([]byte(token)), refusals: Refusals{Log: log}}
}

// Check reports whether the token of a request is right. It sets the header that belongs to a
// refusal with 401, and writes nothing. The time of the comparison depends neither on the content
// nor on the length of the token that was sent.
func (b *Bearer) Check(w http.ResponseWriter, r *http.Request) bool {
	header := r.Header.Get("Authorization")
	scheme, sent, _ := strings.Cut(header, " ")
	got := sha256.Sum256([]byte(sent))
	if strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], b.want[:]) == 1 {
		return true
	}
	if header != "" { // otherwise no guess: a browser, or a person, that does not know of the token yet
		b.refusals.note("wrong bearer token", r)
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="mandate"`)
	return false
}

// Refusals logs requests that are refused, at most one line per logEvery. Safe for concurrent use.
type Refusals struct {
	Log *slog.Logger

	mu       sync.Mutex // guards all below
	logged   time.Time
	unlogged int // refusals since the last line
}

// Foreign reports, and logs, whether a request is made under a name that is not Expected.
func (l *Refusals) Foreign(r *http.Request, names []string) bool {
	if Expected(r.Host, names) {
		return false
	}
	l.note("request under a foreign host name refused", r, "host", r.Host)
	return true
}

func (l *Refusals) note(msg string, r *http.Request, attrs ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.logged) < logEvery {
		l.unlogged++
		return
	}
	l.Log.Warn(msg, append(attrs, "from", r.RemoteAddr, "path", r.URL.Path, "not_logged", l.unlogged)...) //nolint:sloglint // one of two constants
	l.logged, l.unlogged = now, 0
}

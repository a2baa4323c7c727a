package webguard

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"
)

// logEvery is the least time between two log lines about wrong tokens.
const logEvery = time.Second

// Bearer lets requests with a token through, and logs wrong tokens. Guessing is not slowed down:
// the token must be long and random. Safe for concurrent use.
type Bearer struct {
	want [sha256.Size]byte
	log  *slog.Logger

	mu       sync.Mutex // guards all below
	logged   time.Time
	unlogged int // wrong tokens since the last line
}

// NewBearer makes a Bearer for a token, which must not be empty.
func NewBearer(token string, log *slog.Logger) *Bearer {
	return &Bearer{want: sha256.Sum256([]byte(token)), log: log}
}

// Check checks the token of a request. It returns 200 if the token is right, and 401 if it is
// not. It sets the header that belongs to a refusal, and writes nothing. The time of the
// comparison depends neither on the content nor on the length of the token that was sent.
func (b *Bearer) Check(w http.ResponseWriter, r *http.Request) int {
	header := r.Header.Get("Authorization")
	scheme, sent, _ := strings.Cut(header, " ")
	got := sha256.Sum256([]byte(sent))
	if strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], b.want[:]) == 1 {
		return http.StatusOK
	}
	if header != "" { // otherwise no guess: a browser, or a person, that does not know of the token yet
		b.wrong(r)
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="mandate"`)
	return http.StatusUnauthorized
}

// wrong logs where a wrong token came from, at most once per logEvery.
func (b *Bearer) wrong(r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.logged) < logEvery {
		b.unlogged++
		return
	}
	b.log.Warn("wrong bearer token", "from", r.RemoteAddr, "path", r.URL.Path, "not_logged", b.unlogged)
	b.logged, b.unlogged = now, 0
}

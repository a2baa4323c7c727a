package webguard

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Limits on wrong tokens. A client that never sends a wrong token is not affected by
// what others send from elsewhere.
const (
	remoteBurst = 30   // wrong tokens of one remote in a row
	remoteRate  = 0.5  // and then wrong tokens per second
	totalBurst  = 100  // wrong tokens of all remotes that have sent one lately
	totalRate   = 5.0  // and then wrong tokens per second
	maxRemotes  = 1024 // remotes that are remembered
	remembered  = 10 * time.Minute
	logBurst    = 10  // lines
	logRate     = 1.0 // lines per second, each with the number of omitted ones
)

// Bearer lets requests with a token through, and slows down clients that guess the
// token. Safe for concurrent use.
type Bearer struct {
	want [sha256.Size]byte
	log  *slog.Logger

	mu       sync.Mutex         // guards all below
	remotes  map[string]*bucket // the remotes that have sent a wrong token lately
	total    bucket
	logging  bucket
	unlogged int // wrong tokens since the last line
}

// NewBearer makes a Bearer for a token, which must not be empty.
func NewBearer(token string, log *slog.Logger) *Bearer {
	return &Bearer{
		want: sha256.Sum256([]byte(token)), log: log, remotes: map[string]*bucket{},
		total: bucket{burst: totalBurst, rate: totalRate}, logging: bucket{burst: logBurst, rate: logRate},
	}
}

// Check checks the token of a request. It returns 200 if the token is right, 401 if it is
// not, and 429 if too many wrong tokens came before. It sets the headers that belong to a
// refusal, and writes nothing. The time of the comparison depends neither on the content
// nor on the length of the token that was sent.
func (b *Bearer) Check(w http.ResponseWriter, r *http.Request) int {
	header := r.Header.Get("Authorization")
	scheme, sent, _ := strings.Cut(header, " ")
	got := sha256.Sum256([]byte(sent))
	right := strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], b.want[:]) == 1
	if header == "" { // no guess: a browser, or a person, that does not know of the token yet
		w.Header().Set("WWW-Authenticate", `Bearer realm="mandate"`)
		return http.StatusUnauthorized
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	// Check the limit before the token. If the right token passed the limit, a client
	// could go on guessing at full speed.
	if wait := b.limited(remoteOf(r), now); wait > 0 {
		b.unlogged++
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		return http.StatusTooManyRequests
	}
	if right {
		return http.StatusOK
	}
	b.wrong(r, now)
	w.Header().Set("WWW-Authenticate", `Bearer realm="mandate"`)
	return http.StatusUnauthorized
}

// limited returns how long a remote must wait; 0: it may try. A remote without a recent
// wrong token may always try, so no client is locked out by others. The caller holds mu.
func (b *Bearer) limited(remote string, now time.Time) time.Duration {
	own := b.remotes[remote]
	if own == nil || own.old(now) {
		return 0
	}
	return max(own.wait(now), b.total.wait(now))
}

// wrong counts a wrong token, and logs where it came from. The caller holds mu.
func (b *Bearer) wrong(r *http.Request, now time.Time) {
	remote := remoteOf(r)
	own := b.remotes[remote]
	if own == nil {
		b.forget(now)
		own = &bucket{burst: remoteBurst, rate: remoteRate}
		b.remotes[remote] = own
	}
	own.take(now)
	b.total.take(now)
	if b.logging.wait(now) > 0 {
		b.unlogged++
		return
	}
	b.logging.take(now)
	b.log.Warn("wrong bearer token", "from", r.RemoteAddr, "path", r.URL.Path, "not_logged", b.unlogged)
	b.unlogged = 0
}

// forget makes room for one more remote: it removes the old ones, or else the oldest. The caller holds
// mu.
func (b *Bearer) forget(now time.Time) {
	if len(b.remotes) < maxRemotes {
		return
	}
	oldest, at := "", now
	for remote, own := range b.remotes {
		if own.old(now) {
			delete(b.remotes, remote)
		} else if !own.at.After(at) {
			oldest, at = remote, own.at
		}
	}
	if len(b.remotes) >= maxRemotes {
		delete(b.remotes, oldest)
	}
}

// remoteOf returns the remote for which a request counts: its IPv4 address, or its IPv6 network
// (/64), in which a client can have any number of addresses.
func remoteOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr // without a port, as a proxy may have set it
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		if network, err := addr.Prefix(64); err == nil {
			return network.String()
		}
	}
	return addr.String()
}

// bucket is a token bucket: it holds up to burst, and gains rate per second. A zero at means full.
type bucket struct {
	burst, rate float64
	used        float64
	at          time.Time
}

func (k *bucket) left(now time.Time) float64 {
	return min(k.burst, k.burst-k.used+k.rate*now.Sub(k.at).Seconds())
}

// old reports whether nothing was taken for longer than remembered.
func (k *bucket) old(now time.Time) bool { return now.Sub(k.at) > remembered }

// wait returns how long until something can be taken; 0: now.
func (k *bucket) wait(now time.Time) time.Duration {
	missing := 1 - k.left(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / k.rate * float64(time.Second))
}

func (k *bucket) take(now time.Time) {
	k.used, k.at = k.burst-max(0, k.left(now)-1), now
}

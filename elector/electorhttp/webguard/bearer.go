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

// How often wrong tokens are looked at. A client that never sends one is not
// affected, whatever others send from elsewhere.
const (
	remoteBurst = 30   // wrong tokens of one remote in a row
	remoteRate  = 0.5  // and then so many a second
	totalBurst  = 100  // of all remotes that have sent one lately
	totalRate   = 5.0  // and then so many a second
	maxRemotes  = 1024 // are remembered
	remembered  = 10 * time.Minute
	logBurst    = 10  // lines
	logRate     = 1.0 // lines a second, each with the number of those left out
)

// Bearer lets requests through that carry a token, and slows down those that
// guess it. Safe for concurrent use.
type Bearer struct {
	want [sha256.Size]byte
	log  *slog.Logger

	mu       sync.Mutex
	remotes  map[string]*bucket // that have sent a wrong token within the time that is remembered
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

// Check reports whether a request carries the token: 200, 401 when not, 429 when
// too many wrong ones came before it. It sets the headers that belong to the
// refusal, and writes nothing. The time that it takes depends neither on the
// content nor on the length of what was sent.
func (b *Bearer) Check(w http.ResponseWriter, r *http.Request) int {
	header := r.Header.Get("Authorization")
	scheme, sent, _ := strings.Cut(header, " ")
	got := sha256.Sum256([]byte(sent))
	right := strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], b.want[:]) == 1
	if header == "" { // no guess: a browser, or a person, that does not know yet
		w.Header().Set("WWW-Authenticate", `Bearer realm="mandate"`)
		return http.StatusUnauthorized
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	// First the limit, then the token: a limit that the right token passes would
	// let a guesser continue at full speed.
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

// limited is for how long a remote must wait; 0: it may try. A remote without a
// wrong token to its name may always: so no client is locked out by what comes from
// elsewhere.
func (b *Bearer) limited(remote string, now time.Time) time.Duration {
	own := b.remotes[remote]
	if own == nil || own.old(now) {
		return 0
	}
	return max(own.wait(now), b.total.wait(now))
}

// wrong counts a wrong token, and logs where it came from.
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

// forget makes room for one more remote: those of long ago go first, or else the
// oldest.
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

// remoteOf is whom a request counts for: its address, and of IPv6 the network, of
// which a client has as many addresses as it likes.
func remoteOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr // as a proxy named it, without a port
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

// bucket holds up to burst, and gets rate a second. The zero time is full.
type bucket struct {
	burst, rate float64
	used        float64
	at          time.Time
}

func (k *bucket) left(now time.Time) float64 {
	return min(k.burst, k.burst-k.used+k.rate*now.Sub(k.at).Seconds())
}

// old reports whether the last one was taken long ago.
func (k *bucket) old(now time.Time) bool { return now.Sub(k.at) > remembered }

// wait is how long until there is one.
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

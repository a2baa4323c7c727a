package console

import (
	"net/http"
	"slices"
	"time"
)

const (
	maxOpen      = 20               // elections and groups that one stream of details may be of
	writeTimeout = 5 * time.Second  // for a piece of a stream: a slower client is cut off
	beatEvery    = 10 * time.Second // on a quiet stream
	gather       = 50 * time.Millisecond
)

// streams are what viewers read.
type streams struct {
	cache     *cache
	viewers   *viewers
	attention *attention
	hosts     *hostCache
}

// wanted chooses what a stream has: the table, the details of some elections, or the hosts.
func wanted(elections []string, hosts bool) func(key) bool {
	switch {
	case hosts:
		return func(k key) bool { return k.kind == kindHosts }
	case len(elections) > 0:
		return func(k key) bool { return slices.Contains(details, k.kind) && slices.Contains(elections, k.election) }
	default:
		return func(k key) bool { return k.kind != kindHosts && !slices.Contains(details, k.kind) }
	}
}

// serve is GET /api/live: the table as it is, then what changes. With ?election=NAME, which
// may be repeated, it is the details of these elections instead; with ?view=hosts, who is a
// candidate where.
func (s *streams) serve(w http.ResponseWriter, r *http.Request) {
	elections, hosts := r.URL.Query()["election"], r.URL.Query().Get("view") == "hosts"
	if len(elections) > maxOpen {
		refuse(w, http.StatusBadRequest, "%d elections: at most %d at a time", len(elections), maxOpen)
		return
	}
	if !s.viewers.enter() {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "there are %d viewers already", s.viewers.max)
		return
	}
	defer s.viewers.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep it to itself
	if r.Method == http.MethodHead {
		return // nothing would reach the client, and its next request would wait for ever
	}
	if hosts {
		defer s.hosts.open()()
	} else if len(elections) > 0 {
		defer s.attention.open(elections)()
	}
	control := http.NewResponseController(w)
	// A reader that stands still must not hold a goroutine for ever.
	send := func(b []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every ResponseWriter can
		_, err := w.Write(b)
		return err == nil && control.Flush() == nil
	}
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	ok := send([]byte("retry: 1000\n\n"))
	wants := wanted(elections, hosts)
	for at := uint64(0); ok; {
		var changes []byte
		var changed <-chan struct{}
		if changes, at, changed = s.cache.after(at, wants); len(changes) > 0 && !send(changes) {
			return
		}
		select {
		case <-changed:
			// A change seldom comes alone, and the others fit into the same piece.
			ok = sleep(r.Context(), gather)
		case <-beat.C:
			ok = send([]byte("event: beat\ndata: {}\n\n")) // the page notices when it stays out
		case <-r.Context().Done():
			return
		}
	}
}

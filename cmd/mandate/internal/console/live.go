package console

import (
	"net/http"
	"slices"
	"time"
)

const (
	maxOpen      = 20               // maximum number of elections and groups of one stream of details
	writeTimeout = 5 * time.Second  // for one write to a stream: a slower client is disconnected
	beatEvery    = 10 * time.Second // on an idle stream
	gather       = 50 * time.Millisecond
)

// streams serve the event streams of viewers.
type streams struct {
	cache     *cache
	viewers   *viewers
	attention *attention
	hosts     *hostCache
}

// wanted selects the entries of a stream: the table, the details of some elections, or the hosts.
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

// serve serves GET /api/live: the table as it is, and then its changes. With ?election=NAME, which
// may be repeated, it sends the details of these elections instead; with ?view=hosts, the view by
// host.
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
	w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx would buffer the events
	if r.Method == http.MethodHead {
		return // no event would reach the client, and its next request would wait forever
	}
	if hosts {
		defer s.hosts.open()()
	} else if len(elections) > 0 {
		defer s.attention.open(elections)()
	}
	control := http.NewResponseController(w)
	// A client that does not read must not block a goroutine forever.
	send := func(b []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every ResponseWriter supports this
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
			// A change seldom comes alone: send those that follow at once together with it.
			ok = sleep(r.Context(), gather)
		case <-beat.C:
			ok = send([]byte("event: beat\ndata: {}\n\n")) // the page notices when these are missing
		case <-r.Context().Done():
			return
		}
	}
}

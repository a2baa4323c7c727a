package console

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	writeTimeout = 5 * time.Second // for one write to a stream: a slower client is disconnected
	gather       = 50 * time.Millisecond
	linger       = 5 * time.Second // how long a Page counts as viewed after the last viewer, such as during a reload
)

// rows holds the newest state of everything, as it is sent to viewers. Writers never wait for
// readers.
type rows struct {
	mu      sync.Mutex
	last    uint64              // number of the newest change; the first one is 1
	newest  map[string]numbered // the last event of each election; "": of the site
	changed chan struct{}       // closed at the next change
}

type numbered struct {
	number uint64
	event  string // row, gone or site
	data   []byte
}

// Show shows a row, in place of the former one of the same election. It is sent to viewers only if it
// has changed.
func (p *Page) Show(row Row) { p.rows.set(row.Election, "row", row.bounded()) }

// ShowSite shows what is not about one election.
func (p *Page) ShowSite(s Site) {
	s.Problem = cut(s.Problem)
	nodes := []Node{}
	for _, n := range s.Nodes {
		nodes = append(nodes, Node{cut(n.Name), cut(n.Error)})
	}
	s.Nodes = nodes
	p.rows.set("", "site", s)
}

// Shows reports whether there is a row for an election.
func (p *Page) Shows(election string) bool {
	p.rows.mu.Lock()
	defer p.rows.mu.Unlock()
	return p.rows.newest[election].event == "row"
}

// Remove removes the row of an election.
func (p *Page) Remove(election string) {
	if p.Shows(election) {
		p.rows.set(election, "gone", map[string]string{"election": election})
	}
}

// Clear removes everything: what is not read any more becomes outdated.
func (p *Page) Clear() {
	p.rows.mu.Lock()
	defer p.rows.mu.Unlock()
	clear(p.rows.newest)
}

func (s *rows) set(name, event string, v any) {
	data, err := json.Marshal(v)
	if err != nil { // impossible for strings and numbers
		panic("console: a message that can't be encoded: " + err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(s.newest[name].data, data) {
		return
	}
	s.last++
	s.newest[name] = numbered{s.last, event, data}
	close(s.changed)
	s.changed = make(chan struct{})
}

// after returns the changes after number n as server-sent events in order, the number to continue
// with, and a channel that is closed at the next change.
func (s *rows) after(n uint64) ([]byte, uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []numbered
	for _, one := range s.newest {
		if one.number > n {
			found = append(found, one)
		}
	}
	slices.SortFunc(found, func(a, b numbered) int { return int(a.number) - int(b.number) })
	var out bytes.Buffer
	for _, one := range found {
		out.WriteString("event: " + one.event + "\ndata: ")
		out.Write(one.data) // JSON of one line
		out.WriteString("\n\n")
	}
	return out.Bytes(), s.last, s.changed
}

// live serves GET /api/live: everything as it is, and then its changes.
func (p *Page) live(w http.ResponseWriter, r *http.Request) {
	if !p.viewers.enter() {
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "there are too many viewers already")
		return
	}
	defer p.viewers.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // otherwise nginx would buffer the events
	if r.Method == http.MethodHead {
		return // no event would reach the client, and its next request would wait forever
	}
	control := http.NewResponseController(w)
	// A client that does not read must not block a goroutine forever.
	send := func(b []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not every ResponseWriter supports this
		_, err := w.Write(b)
		return err == nil && control.Flush() == nil
	}
	if !send([]byte("retry: 1000\n\n")) {
		return
	}
	for at := uint64(0); ; {
		var changes []byte
		var changed <-chan struct{}
		if changes, at, changed = p.rows.after(at); len(changes) > 0 && !send(changes) {
			return
		}
		select {
		case <-changed:
			time.Sleep(gather) // a change seldom comes alone: send those that follow at once together with it
		case <-r.Context().Done():
			return
		}
	}
}

// viewers counts the viewers.
type viewers struct {
	came chan struct{} // a viewer has come

	mu     sync.Mutex // guards the following
	n, max int
	left   time.Time // when the last one left
}

// enter adds a viewer, or returns false if there are too many.
func (v *viewers) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n >= v.max {
		return false
	}
	v.n++
	select {
	case v.came <- struct{}{}:
	default:
	}
	return true
}

func (v *viewers) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n--
	v.left = time.Now()
}

// Viewed reports whether the page has a viewer, or had one less than 5 s ago.
func (p *Page) Viewed() bool {
	v := p.viewers
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.n > 0 || time.Since(v.left) < linger
}

// AwaitViewer blocks until the page is viewed, or until ctx ends, whose error it then returns.
func (p *Page) AwaitViewer(ctx context.Context) error {
	for !p.Viewed() {
		select {
		case <-p.viewers.came:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return ctx.Err()
}

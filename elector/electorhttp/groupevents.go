package electorhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// events is GET /events: what this member owns, then again after every change. An event has
// all of it, so that a client which missed some misses nothing.
func (g *Group) events(w http.ResponseWriter, r *http.Request) {
	s, done := newStream(w, g.streams)
	if s == nil {
		return
	}
	defer done()
	s.send([]byte("retry: 1000\n\n"))
	if r.Method == http.MethodHead {
		return
	}
	beat := time.NewTicker(g.cfg.Heartbeat)
	defer beat.Stop()
	var last []OwnedShard // nil: nothing was sent yet
	for !s.broken {
		g.mu.Lock()
		changed := g.changed // first the channel, then the shards: no change falls in between
		g.mu.Unlock()
		now := g.ownership(func(h heldShard) (time.Duration, bool) { return 0, h.term.Valid() && !h.p.isClosed() })
		if last == nil || !slices.Equal(now.Owned, last) {
			last = now.Owned
			data, err := json.Marshal(now)
			if err != nil { // strings and numbers
				panic("electorhttp: an event that can't be encoded: " + err.Error())
			}
			s.send(fmt.Appendf(nil, "event: shards\ndata: %s\n\n", data))
		}
		select {
		case <-changed:
		case <-beat.C:
			s.send([]byte(": still here\n\n"))
		case <-g.ended:
			return
		case <-r.Context().Done():
			return
		}
	}
}

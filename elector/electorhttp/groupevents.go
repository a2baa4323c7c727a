package electorhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// events serves GET /events: what this member owns, first now and then after every change. Each
// event lists all owned shards, so a client that missed events needs only the next one.
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
	var last []OwnedShard // nil: no event was sent yet
	for !s.broken {
		g.mu.Lock()
		changed := g.changed // before the shards are read, so that no change is missed
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

package console

import (
	"context"
	"net/http"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

const (
	maxShardStatuses   = 4 // concurrently
	shardStatusTimeout = 2 * time.Second
)

// shardStatuses serves the status of single shards that a viewer points to on a map. The map has no
// tokens: following a thousand elections for them would be expensive.
type shardStatuses struct {
	quorum *elector.Quorum
	cache  *cache
	turns  turns
}

// serve serves GET /api/shard?election=NAME: the status of one shard of a group that is on the
// page. Without viewers it refuses, and does not query Redis.
func (g *shardStatuses) serve(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("election")
	group, _, is := shard.OfElection(name)
	if !is || !g.cache.has(kindGroup, group) {
		refuse(w, http.StatusNotFound, "%.120q is no shard of a group that is on the page", name)
		return
	}
	el, err := g.quorum.Election(name)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%s", problemText(err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*shardStatusTimeout)
	defer cancel()
	answered := false
	g.turns.query(ctx, shardStatusTimeout, func(reading context.Context) {
		st, err := el.Status(reading)
		reply(w, http.StatusOK, statusOf(name, st, err, time.Now()))
		answered = true
	})
	if !answered {
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, "%d shards are being looked at: try again", maxShardStatuses)
	}
}

package shard

import (
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// twins are living members with the same id. since has, by id, when they were noticed; zero: logged.
type twins struct{ since map[string]time.Time }

// look warns once of an id that two members have used for a lease. It waits because the former
// incarnation of a member that was started again counts as alive for half a lease.
func (t *twins) look(m *Member, members []group.Member) {
	if t.since == nil {
		t.since = map[string]time.Time{}
	}
	there := map[string]bool{}
	for i, one := range members[1:] {
		other := members[i] // the one before: members are sorted by id
		if one.ID != other.ID {
			continue
		}
		there[one.ID] = true
		since, known := t.since[one.ID]
		switch {
		case !known:
			t.since[one.ID] = time.Now()
		case !since.IsZero() && time.Since(since) > m.cfg.Lease:
			t.since[one.ID] = time.Time{} // logged
			m.log().Warn("two members have the same id: give each its own", "id", one.ID,
				"host", one.Host, "pid", one.PID, "other_host", other.Host, "other_pid", other.PID)
		}
	}
	for id := range t.since {
		if !there[id] {
			delete(t.since, id)
		}
	}
}

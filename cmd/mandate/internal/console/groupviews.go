package console

import (
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/shard"
)

// These are the states of a group in the table.
const (
	groupOwned   = "owned"   // every shard has an owner
	groupUnowned = "unowned" // some have none
	groupEmpty   = "empty"   // no member is alive
	groupUnknown = "unknown" // nothing has been read yet
)

// These are sent to viewers about a group: a row, and a map of its shards if that is open. Neither
// contains the time of reading, so a group in which nothing happens is not sent again.
type (
	groupRow struct {
		Group    string `json:"election"` // named like the key of the other entries
		State    string `json:"state"`
		Shards   int    `json:"shards"`
		Unowned  int    `json:"unowned"`
		Moving   int    `json:"moving"`
		Stuck    int    `json:"stuck"` // of the unowned and moving ones: for longer than one and a half leases
		Members  int    `json:"members"`
		Able     int    `json:"able"` // members that want shards
		Assigner string `json:"assigner,omitempty"`
		Since    int64  `json:"since,omitempty"` // since when shards have had no owner
		// Parts are how many shards each member owns, in the order of their ids.
		Parts  []groupPart `json:"parts"`
		AsOfMS int64       `json:"as_of,omitempty"` // when it was read last, if it could not be read since
		Error  string      `json:"error,omitempty"` // why it could not be read
	}

	groupPart struct {
		ID    string `json:"id"`
		Owned int    `json:"owned"`
	}

	shardMap struct {
		Group    string        `json:"election"`
		Shards   int           `json:"shards"`
		LeaseMS  int64         `json:"lease_ms"`
		Assigner string        `json:"assigner,omitempty"`
		Members  []groupMember `json:"members"`
		Hidden   int           `json:"hidden,omitempty"`
		Vacant   []vacantPart  `json:"vacant"`
		Stuck    string        `json:"stuck,omitempty"` // shards without an owner, or moving, for longer than one and a half leases
		Problems []string      `json:"problems,omitempty"`
		AsOfMS   int64         `json:"as_of,omitempty"`
		Error    string        `json:"error,omitempty"`
	}

	// groupMember has its shards as text, "0-3,7": a thousand numbers would take ten times as much.
	groupMember struct {
		ID      string  `json:"id"`
		Owned   string  `json:"owned"`
		Planned string  `json:"planned"`
		Unable  string  `json:"unable,omitempty"`
		Due     float64 `json:"due"`
		Weight  float64 `json:"weight"`
		Closed  string  `json:"closed,omitempty"`
		Address string  `json:"address,omitempty"`
		Version string  `json:"version,omitempty"`
		Host    string  `json:"host,omitempty"`
		PID     int     `json:"pid,omitempty"`
	}

	// vacantPart is a set of shards that have no owner for the same reason.
	vacantPart struct {
		Shards string `json:"shards"`
		Count  int    `json:"count"`
		Why    string `json:"why"`
		Since  int64  `json:"since"` // when that was first seen here
	}
)

const maxMembers = 200 // of a group

func groupRowOf(st shard.Status, s *sightings, now time.Time) groupRow {
	r := groupRow{
		Group: st.Group, State: groupOwned, Shards: st.Shards, Unowned: len(st.Unowned), Moving: len(st.Moving), Stuck: len(s.stuck(st.Lease, now)),
		Members: len(st.Members), Assigner: bounded(st.Assigner), Parts: []groupPart{},
	}
	if r.Unowned > 0 {
		r.State, r.Since = groupUnowned, s.oldest().UnixMilli()
	}
	for _, m := range st.Members {
		if m.Closed == "" {
			r.Able++
		}
		if len(r.Parts) < maxMembers {
			r.Parts = append(r.Parts, groupPart{bounded(m.ID), len(m.Owned)})
		}
	}
	return r
}

func shardMapOf(st shard.Status, s *sightings, now time.Time) shardMap {
	m := shardMap{
		Group: st.Group, Shards: st.Shards, LeaseMS: st.Lease.Milliseconds(), Assigner: bounded(st.Assigner),
		Members: []groupMember{}, Vacant: s.vacancies(st.Unowned), Stuck: s.stuck(st.Lease, now).String(),
		Hidden: max(0, len(st.Members)-maxMembers),
	}
	for _, one := range st.Members[:min(maxMembers, len(st.Members))] {
		m.Members = append(m.Members, groupMember{
			ID: bounded(one.ID), Owned: shard.Set(one.Owned).String(), Planned: shard.Set(one.Planned).String(), Unable: shard.Set(one.Unable).String(),
			Due: one.Due, Weight: one.Weight, Closed: bounded(one.Closed),
			Address: bounded(one.Advertise), Version: bounded(one.Version), Host: bounded(one.Host), PID: one.PID,
		})
	}
	for _, err := range st.Problems {
		m.Problems = append(m.Problems, problemText(err))
	}
	return m
}

// sightings record since when shards have had no owner, and since when they have been moving, as
// seen by reads of the group.
type sightings struct{ vacant, moving map[int]time.Time }

func newSightings() *sightings {
	return &sightings{vacant: map[int]time.Time{}, moving: map[int]time.Time{}}
}

func (s *sightings) look(st shard.Status, now time.Time) {
	unowned := make([]int, len(st.Unowned))
	for i, v := range st.Unowned {
		unowned[i] = v.Shard
	}
	s.vacant, s.moving = seenSince(s.vacant, unowned, now), seenSince(s.moving, st.Moving, now)
}

func seenSince(before map[int]time.Time, shards []int, now time.Time) map[int]time.Time {
	seen := make(map[int]time.Time, len(shards))
	for _, n := range shards {
		if since, was := before[n]; was {
			seen[n] = since
		} else {
			seen[n] = now
		}
	}
	return seen
}

// stuck returns the shards that have had no owner, or have been moving, for longer than a failover
// or a move takes.
func (s *sightings) stuck(lease time.Duration, now time.Time) shard.Set {
	all := shard.Set{}
	for _, seen := range []map[int]time.Time{s.vacant, s.moving} {
		for n, since := range seen {
			if now.Sub(since) > lease+lease/2 {
				all = append(all, n)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all) // a shard may have been moving when it lost its owner
}

func (s *sightings) oldest() time.Time {
	var oldest time.Time
	for _, since := range s.vacant {
		if oldest.IsZero() || since.Before(oldest) {
			oldest = since
		}
	}
	return oldest
}

// vacancies groups the shards that have had no owner for the same reason and since the same read.
func (s *sightings) vacancies(unowned []shard.Vacancy) []vacantPart {
	type cause struct {
		why   string
		since time.Time
	}
	shards := map[cause]shard.Set{}
	var order []cause
	for _, v := range unowned {
		why := v.Why
		if rest, names := strings.CutPrefix(why, v.Next+" "); names && v.Next != "" { // the map shows which member
			why = "the next owner " + rest
		}
		c := cause{why, s.vacant[v.Shard]}
		if shards[c] == nil {
			order = append(order, c)
		}
		shards[c] = append(shards[c], v.Shard)
	}
	parts := []vacantPart{}
	for _, c := range order[:min(maxMembers, len(order))] {
		parts = append(parts, vacantPart{Shards: shards[c].String(), Count: len(shards[c]), Why: bounded(c.why), Since: c.since.UnixMilli()})
	}
	return parts
}

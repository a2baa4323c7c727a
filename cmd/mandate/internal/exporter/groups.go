package exporter

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

const (
	atATime     = 16              // elections, and groups, that are read concurrently
	groupWithin = 4 * time.Second // two time-outs of a node that hangs, one after the other
	maxMembers  = 200             // members of a group that have their own series
)

// groupReading is what was read of one group as a whole, however many shards it has.
type groupReading struct {
	name    string
	listed  int // elections of its shards, which is all that is known of a group without members
	status  shard.Status
	err     error // if set, nothing is known
	unowned time.Duration
}

// groups reads groups, and remembers since when their shards have had no owner. Only one scrape may
// use it at a time.
type groups struct {
	quorum  *elector.Quorum
	unowned map[string]map[int]time.Time // since when, by group and shard
}

// read reads the groups concurrently.
func (g groups) read(ctx context.Context, groups map[string]shard.Set, complete bool) []groupReading {
	all := make([]groupReading, 0, len(groups))
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, groupReading{name: name, listed: len(groups[name])})
	}
	places := make(chan struct{}, atATime)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			all[i].read(ctx, g.quorum)
		})
	}
	wg.Wait()
	g.remember(all, complete, time.Now())
	return all
}

func (g *groupReading) read(ctx context.Context, q *elector.Quorum) {
	ctx, cancel := context.WithTimeout(ctx, groupWithin)
	defer cancel()
	g.status, g.err = shard.Read(ctx, q, g.name)
	if errors.Is(g.err, shard.ErrNoGroup) { // its members are gone, so its shards have no owners
		g.status, g.err = shard.Status{Group: g.name, Shards: g.listed, Unowned: make([]shard.Vacancy, g.listed)}, nil
		for i := range g.status.Unowned {
			g.status.Unowned[i].Shard = i
		}
	}
}

// remember keeps since when shards have had no owner.
func (g groups) remember(all []groupReading, complete bool, now time.Time) {
	there := map[string]bool{}
	for i := range all {
		r := &all[i]
		there[r.name] = true
		if r.err != nil {
			continue
		}
		before, since := g.unowned[r.name], map[int]time.Time{}
		for _, v := range r.status.Unowned {
			since[v.Shard] = now
			if at, was := before[v.Shard]; was {
				since[v.Shard] = at
			}
			// Never zero for an unowned shard, so that an alert can test it at once.
			r.unowned = max(r.unowned, time.Millisecond, now.Sub(since[v.Shard]))
		}
		g.unowned[r.name] = since
	}
	if complete {
		maps.DeleteFunc(g.unowned, func(name string, _ map[int]time.Time) bool { return !there[name] })
	}
}

// writeGroups writes the families of groups. None has a series for each shard.
func writeGroups(w *writer, all []groupReading) {
	group := func(name, help string, value func(*shard.Status) float64) {
		w.family("mandate_group_"+name, help)
		for i := range all {
			if all[i].err == nil {
				w.sample(value(&all[i].status), "group", all[i].name)
			}
		}
	}
	group("shards", "Shards of the group.", func(st *shard.Status) float64 { return float64(st.Shards) })
	group("shards_unowned", "Shards that no member reports as its own.", func(st *shard.Status) float64 { return float64(len(st.Unowned)) })
	w.family("mandate_group_unowned_seconds", "For how long the shard that is longest without an owner has been seen so, 0 while all have one.")
	for i := range all {
		if g := &all[i]; g.err == nil {
			w.sample(g.unowned.Seconds(), "group", g.name)
		}
	}
	group("shards_moving", "Shards that a member owns and another one is to own.", func(st *shard.Status) float64 { return float64(len(st.Moving)) })
	group("members", "Living members.", func(st *shard.Status) float64 { return float64(len(st.Members)) })
	group("members_open", "Living members that want shards: healthy, and not stopping.", func(st *shard.Status) float64 { return float64(len(open(st.Members))) })
	group("assigner_known", "1 if a member makes the plans, 0 if none does or that cannot be read.", func(st *shard.Status) float64 { return flag(st.Assigner != "") })
	member := func(name, help string, value func(*shard.MemberStatus) float64) {
		w.family("mandate_group_member_"+name, help)
		for i := range all {
			if all[i].err != nil {
				continue
			}
			for _, m := range first(all[i].status.Members) {
				w.sample(value(m), "group", all[i].name, "member", m.ID)
			}
		}
	}
	member("owned", "Shards that the member owns.", func(m *shard.MemberStatus) float64 { return float64(len(m.Owned)) })
	member("due", "Shards that the member should own, by its weight.", func(m *shard.MemberStatus) float64 { return m.Due })
}

func open(members []shard.MemberStatus) []shard.MemberStatus {
	return slices.DeleteFunc(slices.Clone(members), func(m shard.MemberStatus) bool { return m.Closed != "" })
}

// first returns the members that have series. If two members have the same id, and so would have
// the same series, it returns the one that owns more shards.
func first(members []shard.MemberStatus) []*shard.MemberStatus {
	var all []*shard.MemberStatus
	for i := range members {
		m := &members[i]
		switch last := len(all) - 1; {
		case last >= 0 && all[last].ID == m.ID:
			if cmp.Compare(len(m.Owned), len(all[last].Owned)) > 0 {
				all[last] = m
			}
		case len(all) < maxMembers:
			all = append(all, m)
		}
	}
	return all
}

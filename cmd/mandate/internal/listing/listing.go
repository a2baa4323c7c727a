// Package listing bounds what a list of all elections shows. It imports only the public API.
package listing

import (
	"cmp"
	"slices"

	"github.com/mandate-dev/mandate/elector/shard"
)

// MaxGroups is how many groups of shards a list shows. It bounds the work, because each group is
// read as a whole, and any two keys that someone has written can look like a group.
const MaxGroups = 500

// A Group is a group of shards, with those of its shards that Redis lists.
type Group struct {
	Name   string
	Shards shard.Set
}

// Fold separates the names of elections into groups and others. names must list the elections in
// use first, as elector.Quorum.ElectionsByUse does; the groups are returned in that order. Of more
// groups than most the last ones are left out; left is their number.
func Fold(names []string, most int) (others []string, groups []Group, left int) {
	others, shards := shard.Split(names)
	first := make(map[string]int, len(shards))
	for i, name := range names {
		group, _, is := shard.OfElection(name)
		if _, before := first[group]; is && !before {
			first[group] = i
		}
	}
	groups = make([]Group, 0, len(shards))
	for name, listed := range shards {
		groups = append(groups, Group{name, listed})
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(first[a.Name], first[b.Name]) })
	left = max(0, len(groups)-most)
	return others, groups[:len(groups)-left], left
}

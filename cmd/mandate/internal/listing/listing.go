// Package listing bounds what a list of all elections shows. It imports the public API only.
package listing

import (
	"cmp"
	"slices"

	"github.com/mandate-dev/mandate/elector/shard"
)

// MaxGroups is how many groups of shards a list shows: each of them is read as a whole, and two
// keys that anybody may have written look like one.
const MaxGroups = 500

// A Group is a group of shards, and those of them that Redis lists.
type Group struct {
	Name   string
	Shards shard.Set
}

// Fold separates the names of elections into groups, at most so many, and the others. The
// names of elections in use come first, as of elector.Quorum.ElectionsByUse, and so do their
// groups; left are the groups that found no room.
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

package shard

import (
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Split separates the names of elections, as elector.Quorum.Elections lists them, into those of
// groups' shards and assigners, and the others. others are in the order of the list. shards has, by
// group, the numbers of the listed shards in ascending order.
//
// A name counts as a group if the list has its assigner's election and at least one of its shards'.
// The group may have no members any more: Read returns ErrNoGroup then.
func Split(elections []string) (others []string, shards map[string]Set) {
	assigned := map[string]bool{}
	for _, name := range elections {
		if group, is := strings.CutSuffix(name, ElectionOfAssigner("")); is && group != "" {
			assigned[group] = true
		}
	}
	shards = map[string]Set{}
	for _, name := range elections {
		if group, n, is := OfElection(name); is && assigned[group] {
			shards[group] = append(shards[group], n)
		}
	}
	for _, all := range shards {
		slices.Sort(all)
	}
	for _, name := range elections {
		if group, _, is := OfElection(name); is && shards[group] != nil {
			continue
		}
		if group, is := strings.CutSuffix(name, ElectionOfAssigner("")); is && shards[group] != nil {
			continue
		}
		others = append(others, name)
	}
	return others, shards
}

// OfElection returns the group and the shard whose election would have that name (ElectionOf),
// whether or not there is such a group.
func OfElection(election string) (name string, shard int, is bool) { return protocol.ShardOf(election) }

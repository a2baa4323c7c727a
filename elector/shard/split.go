package shard

import (
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Split separates the names of elections, as elector.Quorum.Elections lists them, into those
// that belong to groups and the others, both in the order that they came in. shards has by
// group the numbers of those that are listed, in ascending order.
//
// A group is a name below which there is an assigner's election and at least one shard's. It
// may have no members any more; Read knows.
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

// OfElection is the group and the shard whose election would have that name (ElectionOf),
// whether or not there is such a group.
func OfElection(election string) (name string, shard int, is bool) { return protocol.ShardOf(election) }

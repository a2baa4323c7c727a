package shard

import (
	"hash/fnv"
	"io"
	"maps"
	"slices"

	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// ElectionOf returns the name of the election that decides who owns a shard of a group.
func ElectionOf(group string, shard int) string { return protocol.ElectionOfShard(group, shard) }

// ElectionOfAssigner returns the name of the election that elects a group's assigner.
func ElectionOfAssigner(group string) string { return protocol.ElectionOfAssigner(group) }

// OfElection returns the group and the shard whose election would have that name (ElectionOf),
// whether or not there is such a group.
func OfElection(election string) (name string, shard int, is bool) { return protocol.ShardOf(election) }

// Of returns the shard to which a key belongs among the given number of shards: a hash (FNV-1a,
// 64 bits, its halves mixed) modulo that number. It is the same in every version.
func Of(key string, shards int) int {
	h := fnv.New64a()
	_, _ = io.WriteString(h, key)
	sum := h.Sum64()
	sum ^= sum >> 32 // FNV's low bits alone depend on the low bits of the key
	sum *= 0x9e3779b97f4a7c15
	sum ^= sum >> 32
	return int(sum % uint64(max(shards, 1)))
}

// Set is a set of shards in ascending order. Its String is short and readable: "0-3,7".
type Set = group.Set

// Split separates the names of elections, as elector.Quorum.Elections lists them, into those of
// groups' shards and assigners, and the others. others are in the order of the list. shards has, by
// group, the numbers of the listed shards in ascending order.
//
// A name counts as a group if the list has its assigner's election and at least one of its shards'.
// The group may have no members any more: Read returns ErrNoGroup then.
func Split(elections []string) (others []string, shards map[string]Set) {
	shards, assigned := map[string]Set{}, map[string]bool{}
	for _, name := range elections {
		if group, n, is := OfElection(name); is {
			shards[group] = append(shards[group], n)
		} else if group, is := protocol.GroupOf(name); is {
			assigned[group] = true
		}
	}
	maps.DeleteFunc(shards, func(group string, _ Set) bool { return !assigned[group] })
	for _, all := range shards {
		slices.Sort(all)
	}
	for _, name := range elections {
		if group, is := protocol.GroupOf(name); !is || shards[group] == nil {
			others = append(others, name)
		}
	}
	return others, shards
}

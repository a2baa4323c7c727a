package shard

import (
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// ElectionOf returns the name of the election that decides who owns a shard of a group.
func ElectionOf(group string, shard int) string { return protocol.ElectionOfShard(group, shard) }

// ElectionOfAssigner returns the name of the election that elects a group's assigner.
func ElectionOfAssigner(group string) string { return protocol.ElectionOfAssigner(group) }

// OfElection returns the group and the shard whose election has that name (ElectionOf).
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
// group, the numbers of the listed shards in ascending order. A group may have no members any more:
// Read returns ErrNoGroup then.
func Split(elections []string) (others []string, shards map[string]Set) {
	shards = map[string]Set{}
	for _, name := range elections {
		if group, n, is := OfElection(name); is {
			shards[group] = append(shards[group], n)
		} else if group, is := strings.CutSuffix(name, ElectionOfAssigner("")); is && protocol.CheckGroup(group) == nil {
			shards[group] = append(shards[group], nil...) // also one without a shard
		} else {
			others = append(others, name)
		}
	}
	for _, all := range shards {
		slices.Sort(all)
	}
	return others, shards
}

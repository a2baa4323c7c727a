package shard

import (
	"hash/fnv"
	"io"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// ElectionOf returns the name of the election that decides who owns a shard of a group.
func ElectionOf(group string, shard int) string { return protocol.ElectionOfShard(group, shard) }

// ElectionOfAssigner returns the name of the election that elects a group's assigner.
func ElectionOfAssigner(group string) string { return protocol.ElectionOfAssigner(group) }

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

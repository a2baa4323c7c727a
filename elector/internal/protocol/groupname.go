package protocol

import (
	"strconv"
	"strings"
)

// MaxShards is the maximum number of shards of a group.
const MaxShards = 16384

const (
	belowGroup   = "/"
	assignerName = "assigner"
)

// ElectionOfShard returns the name of the election that decides which member owns a shard.
func ElectionOfShard(group string, shard int) string {
	return group + belowGroup + strconv.Itoa(shard)
}

// ElectionOfAssigner returns the name of the election for a group's assigner.
func ElectionOfAssigner(group string) string { return group + belowGroup + assignerName }

// ShardOf returns the group and the shard whose election would have that name, whether or not such
// a group exists.
func ShardOf(election string) (group string, shard int, is bool) {
	i := strings.LastIndex(election, belowGroup)
	if i < 1 {
		return "", 0, false
	}
	n, err := strconv.Atoi(election[i+1:])
	if err != nil || n < 0 || n >= MaxShards || election != ElectionOfShard(election[:i], n) {
		return "", 0, false
	}
	return election[:i], n, true
}

// GroupOf returns the group that an election of that name would belong to, as the election of a shard
// or of the assigner. The number of shards does not matter.
func GroupOf(election string) (group string, is bool) {
	if group, is = strings.CutSuffix(election, ElectionOfAssigner("")); is && group != "" {
		return group, true
	}
	group, _, is = ShardOf(election)
	return group, is
}

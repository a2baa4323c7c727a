package protocol

import (
	"strconv"
	"strings"
)

// MaxShards bounds the shards of a group.
const MaxShards = 16384

const (
	belowGroup   = "/"
	assignerName = "assigner"
)

// ElectionOfShard is the name of the election that decides who owns a shard of a group.
func ElectionOfShard(group string, shard int) string {
	return group + belowGroup + strconv.Itoa(shard)
}

// ElectionOfAssigner is the name of the election of the member that assigns the shards.
func ElectionOfAssigner(group string) string { return group + belowGroup + assignerName }

// ShardOf is the group and the shard whose election would have that name, whether or not there is
// such a group.
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

// GroupOf is the group of which an election of that name would be a part, as that of a shard or of
// the assigner. How many shards the group has does not matter: it may grow to have that one.
func GroupOf(election string) (group string, is bool) {
	if group, is = strings.CutSuffix(election, ElectionOfAssigner("")); is && group != "" {
		return group, true
	}
	group, _, is = ShardOf(election)
	return group, is
}

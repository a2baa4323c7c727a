package shard_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/mandate-dev/mandate/elector/shard"
)

func TestSplit(t *testing.T) {
	others, groups := shard.Split([]string{
		"a", "a/0", // no group: without an assigner
		"b/assigner",                                               // no group: without a shard
		"c/1", "c/10", "c/2", "c/assigner", "c/01", "c/-1", "c/+3", // a group, and names that no shard has
		"c/99999", "c", "c/d/assigner", "c/d/7", "/assigner", "/3",
	})
	if want := []string{"a", "a/0", "b/assigner", "c/01", "c/-1", "c/+3", "c/99999", "c", "/assigner", "/3"}; !slices.Equal(others, want) {
		t.Errorf("others: %q, want %q", others, want)
	}
	if want := map[string]shard.Set{"c": {1, 2, 10}, "c/d": {7}}; !maps.EqualFunc(groups, want, slices.Equal) {
		t.Errorf("groups: %v, want %v", groups, want)
	}
}

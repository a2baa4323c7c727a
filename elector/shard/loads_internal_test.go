package shard

import (
	"maps"
	"testing"
)

// A record that another program has written must not have the assigner keep loads of shards that the group does not have.
func TestLoadsOfOtherShardsAreNotKept(t *testing.T) {
	k := knownLoads{}
	k.take(map[int]float64{-1: 1, 0: 2, 3: 3, 4: 4, 1 << 40: 5}, 4)
	if want := (knownLoads{0: 2, 3: 3}); !maps.Equal(k, want) {
		t.Errorf("kept %v, want %v", k, want)
	}
	if all := k.of(4); len(all) != 4 || all[0] != 2 || all[1] != unknown {
		t.Errorf("%v", all)
	}
}

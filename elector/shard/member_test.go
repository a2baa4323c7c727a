package shard_test

import (
	"fmt"
	"testing"

	"github.com/mandate-dev/mandate/elector/shard"
)

// Every process of every version must come to the same shard.
func TestOfIsStable(t *testing.T) {
	for key, want := range map[string]int{"": 129, "a": 604, "customer-17": 658, "customer-18": 728, "日本": 148} {
		if got := shard.Of(key, 1024); got != want {
			t.Errorf("Of(%q, 1024) is %d, it was %d", key, got, want)
		}
	}
}

func TestOfIsEven(t *testing.T) {
	for _, shards := range []int{1, 2, 3, 16, 100} {
		count := make([]int, shards)
		const keys = 100_000
		for i := range keys {
			count[shard.Of(fmt.Sprintf("customer-%d", i), shards)]++
		}
		for s, n := range count {
			if part := keys / shards; n < part*8/10 || n > part*12/10 {
				t.Errorf("shard %d of %d has %d of %d keys", s, shards, n, keys)
			}
		}
	}
}

// With twice as many shards each one is divided in two.
func TestOfGrowsByAMultiple(t *testing.T) {
	for i := range 1000 {
		key := fmt.Sprint("key-", i)
		if before, after := shard.Of(key, 16), shard.Of(key, 48); after%16 != before {
			t.Fatalf("%s: shard %d of 16, and %d of 48", key, before, after)
		}
	}
}

package shard

import "github.com/mandate-dev/mandate/elector"

// Term is the ownership of one shard, from its begin to its end. To test your work, make a Term
// with electortest.NewShardTerm.
type Term struct {
	*elector.Term

	Shard int // from 0
	// Shards is the number of shards in the group: the work covers the keys that belong to Shard
	// out of Shards (Has).
	Shards int
}

// Has reports whether a key belongs to the shard.
func (t *Term) Has(key string) bool { return Of(key, t.Shards) == t.Shard }

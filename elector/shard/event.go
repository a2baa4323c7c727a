package shard

// event is what the goroutines around a member's reconciler report to it: a node's answer,
// the begin and the end of a term, the end of a candidacy, new loads, a failure. It goes by
// their types (take), so that none of them needs to know it.
type event any

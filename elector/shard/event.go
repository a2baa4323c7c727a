package shard

// event is anything that other goroutines report to a member's reconciler: a node's answer, the
// begin and the end of a term, the end of a candidacy, new loads, a failure. The reconciler
// switches on the type (take), so that the senders need not depend on the reconciler.
type event any

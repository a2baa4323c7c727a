package electortest

import (
	"testing"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/shard"
)

// NewTerm returns a term with that token, for a test that calls a work function itself, with
// no election and no Redis. The term is valid until end is called with the reason that the work
// is to see, until Resign or Close is called, or until the test ends. Its deadline is a day away.
//
//	term, end := electortest.NewTerm(t, 7)
//	go end(elector.ReasonLost)
//	err := work(term.Context(), term)
func NewTerm(t testing.TB, token uint64) (term *elector.Term, end func(elector.Reason)) {
	t.Helper()
	term, end = elector.UngrantedTerm(module.Only{}, token)
	t.Cleanup(func() { end(elector.ReasonShutdown) })
	return term, end
}

// NewShardTerm is [NewTerm] for a test that calls the work of a shard itself, with no group
// and no Redis.
//
//	term, end := electortest.NewShardTerm(t, 3, 7) // shard 3, token 7
//	term.Shards = 12                               // of 12, for work that asks term.Has(key)
func NewShardTerm(t testing.TB, n int, token uint64) (term *shard.Term, end func(elector.Reason)) {
	t.Helper()
	inner, end := NewTerm(t, token)
	return &shard.Term{Term: inner, Shard: n}, end
}

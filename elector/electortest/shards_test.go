package electortest_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/shard"
)

func TestNewShardTerm(t *testing.T) {
	term, end := electortest.NewShardTerm(t, 3, 7)
	if term.Shard != 3 || term.Token() != 7 || !term.Valid() {
		t.Errorf("shard %d, token %d, valid %v", term.Shard, term.Token(), term.Valid())
	}
	go end(elector.ReasonLost)
	<-term.Done()
	var ended *elector.Ended
	if !errors.As(term.Err(), &ended) || ended.Reason != elector.ReasonLost {
		t.Errorf("ended by %v", term.Err())
	}
}

// A member under test, beside one that joins, hangs at a shard, is killed, and one that leaves.
func TestPeers(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		cfg := func(id string) shard.Config {
			return shard.Config{Group: "invoices", Shards: 6, ID: id, Logger: slog.New(slog.DiscardHandler)}
		}
		m, err := shard.New(r.Quorum("mine"), cfg("mine"))
		if err != nil {
			t.Fatal(err)
		}
		var ends []elector.Reason
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- m.Run(ctx, func(ctx context.Context, term *shard.Term) error {
				<-ctx.Done()
				var ended *elector.Ended
				if errors.As(term.Err(), &ended) && term.Shard == 0 {
					ends = append(ends, ended.Reason)
				}
				return nil
			})
		}()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		owns := func(when string, want int) {
			t.Helper()
			r.Settle("invoices")
			if n := len(m.Owned()); n != want {
				t.Errorf("%s it owns %d shards, want %d", when, n, want)
			}
		}
		owns("alone", 6)
		peer := r.Join(cfg("peer"))
		electortest.Advance(time.Second)
		owns("beside another one", 3)

		hung := peer.Owned()[0]
		peer.Hang(hung)
		electortest.Advance(5 * time.Second)
		r.Settle("invoices")
		if !slices.Contains(m.Owned(), hung) || peer.Term(hung) != nil || len(peer.Owned()) < 2 {
			t.Errorf("shard %d hung: owned by %v, the peer owns %v", hung, m.Owned(), peer.Owned())
		}
		peer.Kill()
		electortest.Advance(15 * time.Second)
		owns("after the peer was killed", 6)

		r.TakeShard(m, 0)
		electortest.Advance(15 * time.Second)
		owns("a lease after one was taken", 6)
		if !slices.Contains(ends, elector.ReasonLost) {
			t.Errorf("the term of a shard that was taken ended by %v", ends)
		}

		other := r.Join(cfg("other"))
		electortest.Advance(time.Second)
		owns("beside a third one", 3)
		other.Leave()
		owns("after that left", 6)
	})
}

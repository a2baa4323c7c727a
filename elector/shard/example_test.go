package shard_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// One member of a group owns all shards, until others join.
func ExampleMember_Run() {
	redis, err := miniredis.Run() // yours is a redis-server
	if err != nil {
		panic(err)
	}
	defer redis.Close()
	q, err := elector.Open("redis://" + redis.Addr())
	if err != nil {
		panic(err)
	}
	defer q.Close()
	m, err := shard.New(q, shard.Config{Group: "invoices", Shards: 2, Lease: time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute) // yours is signal.NotifyContext
	defer stop()
	var owned atomic.Int32
	err = m.Run(ctx, func(ctx context.Context, term *shard.Term) error {
		fmt.Println("shard", term.Shard, "is this member's:", term.Valid())
		if owned.Add(1) == 2 {
			stop() // as SIGTERM would
		}
		<-ctx.Done() // the work, which must return soon after ctx ends
		return nil
	})
	fmt.Println("Run:", err)
	// Unordered output:
	// shard 0 is this member's: true
	// shard 1 is this member's: true
	// Run: <nil>
}

// A request for a customer goes to the member that owns the customer's shard.
func ExampleMember_OwnerOf() {
	route := func(m *shard.Member, customer string) string {
		if m.Term(m.ShardOf(customer)) != nil {
			return "" // here
		}
		owner, _ := m.OwnerOf(customer) // a hint; empty: no member owns it now
		return owner.Advertise
	}
	_ = route
}

// Every process of every version finds the same shard. With a multiple of the shards a key
// stays in its family.
func ExampleOf() {
	before, after := shard.Of("customer-17", 16), shard.Of("customer-17", 48)
	fmt.Println(before, after%16 == before)
	// Output: 2 true
}

// The members of a group, and the shards that none of them owns.
func ExampleRead() {
	q, err := elector.Open("redis://127.0.0.1:6379")
	if err != nil {
		panic(err)
	}
	defer q.Close()
	st, err := shard.Read(context.Background(), q, "invoices")
	if err != nil {
		panic(err)
	}
	for _, m := range st.Members {
		fmt.Printf("%s owns %d shards, its due is %.1f\n", m.ID, len(m.Owned), m.Due)
	}
	for _, v := range st.Unowned {
		fmt.Printf("shard %d has no owner: %s\n", v.Shard, v.Why)
	}
}

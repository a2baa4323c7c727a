package elector

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// offline is a candidate of some nodes to which it has no connection, with a lease of
// 10 s.
func offline(t *testing.T, nodes int) *Elector {
	t.Helper()
	e, err := New(offlineQuorum(t, nodes), Config{Election: "orders", ID: "me"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func offlineQuorum(t *testing.T, nodes int) *Quorum {
	t.Helper()
	var clients []redis.UniversalClient
	for i := range nodes {
		cl := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", 7001+i)})
		t.Cleanup(func() { cl.Close() })
		clients = append(clients, cl)
	}
	q, err := NewQuorum(clients...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

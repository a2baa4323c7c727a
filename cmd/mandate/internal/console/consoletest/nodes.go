package consoletest

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// Nodes are several embedded Redis nodes, each under its own address.
type Nodes []*electortest.Redis

// StartNodes starts n nodes.
func StartNodes(t testing.TB, n int) Nodes {
	t.Helper()
	all := make(Nodes, n)
	for i := range all {
		all[i] = electortest.Start(t)
	}
	return all
}

// Quorum returns a quorum of the nodes listed, counted from 0, for a host.
func (all Nodes) Quorum(t testing.TB, host string, list ...int) *elector.Quorum {
	t.Helper()
	var clients []redis.UniversalClient
	for _, i := range list {
		o := *all[i].Client(host).Options()
		o.Addr = fmt.Sprintf("redis-%d.test:6379", i+1) // the nodes of electortest all have the same address
		c := redis.NewClient(&o)
		t.Cleanup(func() { _ = c.Close() })
		clients = append(clients, c)
	}
	q, err := elector.NewQuorum(clients...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

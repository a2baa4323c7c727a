package nodes

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

var must = servertest.Must

// TestMain keeps go-redis from printing every refused connection.
func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}

// bubble runs f before a node in a bubble of its own.
func bubble(t *testing.T, f func(t *testing.T, n *Node, server *miniredis.Miniredis), change ...func(*redis.Options)) {
	t.Helper()
	testredis.Bubble(t, 1, func(t *testing.T, s *testredis.Set) {
		s.Nodes[0].Wire = 0
		c := s.Client("a", 0, change...)
		ns, err := Open([]redis.UniversalClient{c})
		must(t, err)
		t.Cleanup(func() {
			ns.Close()
			c.Close()
		})
		f(t, ns.All()[0], s.Nodes[0].Server())
	})
}

package fence_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/fence"
)

// A mark that can't be read is no mark that refuses: the caller may try again.
func TestMarkThatCanNotBeReadIsNotStale(t *testing.T) {
	m := miniredis.RunT(t)
	r := newRedis(t, client(t, m.Addr()))
	m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd == "GET" {
			c.WriteError("NOPERM no permissions to access a key")
		}
		return cmd == "GET"
	})
	if err := write(r, 7, "x"); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "NOPERM") {
		t.Error(err)
	}
	if m.Exists(list) {
		t.Error("something was written")
	}
}

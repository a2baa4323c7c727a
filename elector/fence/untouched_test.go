package fence_test

import (
	"errors"
	"strconv"
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
	for _, way := range []string{"script", "transaction"} {
		if err := write(r, way, 7, "x"); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s: %v", way, err)
		}
	}
	if m.Exists(list) {
		t.Error("something was written")
	}
}

// A transaction whose mark moves each time gives up, with nothing written.
func TestTransactionsGiveUp(t *testing.T) {
	m := miniredis.RunT(t)
	r := newRedis(t, client(t, m.Addr()))
	tries := 0
	m.Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool {
		if cmd == "EXEC" {
			tries++
			_ = m.Set(mark, strconv.Itoa(tries%2)) // other leaders come and go
		}
		return false
	})
	err := write(r, "transaction", 7, "x")
	if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "nothing was written") || tries != 10 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	if m.Exists(list) {
		t.Error("something was written")
	}
}

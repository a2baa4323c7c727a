package electortest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// Start starts a Redis on the real clock, which stops when the test ends. For virtual
// time use [Test].
func Start(t testing.TB) *Redis {
	r := &Redis{
		t: t, server: miniredis.NewMiniRedis(),
		lines: map[*line]string{}, cut: map[string]int{}, chosen: map[string]string{},
	}
	r.server.ClockTTL(true)
	conn, err := r.server.Dial() // starts it, without a socket
	if err != nil {
		t.Fatalf("electortest: starting the embedded Redis: %v", err)
	}
	_ = conn.Close()
	r.server.Server().SetPreHook(r.keepOut)
	r.admin = newClient(r.server.Dial)
	t.Cleanup(func() {
		_ = r.admin.Close()
		r.server.Close()
	})
	return r
}

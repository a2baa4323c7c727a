package quorum

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// A Redis that restarts answers LOADING for a while, to SUBSCRIBE too, and keeps the
// connection: a process that does not ask again never receives anything.
func TestRefusedSubscriptionIsAskedForAgain(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		loading := atomic.Bool{}
		loading.Store(true)
		p.redis[0].Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd != "SUBSCRIBE" || !loading.Load() {
				return false
			}
			c.WriteError("LOADING Redis is loading the dataset in memory")
			return true
		})
		var received atomic.Int64
		stop := p.voter("a").nodes.Watch(p.keys.Events, func(s Signal) {
			if s.Kind == Message {
				received.Add(1)
			}
		})
		defer stop()
		time.Sleep(time.Minute)
		loading.Store(false)
		time.Sleep(2 * retryMost)
		p.redis[0].Publish(p.keys.Events, "news")
		synctest.Wait()
		if received.Load() != 1 {
			t.Errorf("received %d messages, want 1", received.Load())
		}
	})
}

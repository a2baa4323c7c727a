package quorum

import (
	"cmp"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// The short way of a renewal leaves behind what the long one does.
func TestShortWayOfARenewal(t *testing.T) {
	heir := protocol.Heir{Incarnation: "incc", Keep: time.Second}
	for name, c := range map[string]struct {
		heir          protocol.Heir
		change        func(p *polls)
		status        protocol.Status
		reserved      string
		reservedFor   time.Duration
		lock, counter string // empty: as before
	}{
		"nothing is wrong": {},
		"an heir":          {heir: heir, reserved: "!incc", reservedFor: testLease + time.Second},
		"another heir before": {heir: heir, reserved: "!incc", reservedFor: testLease + time.Second, change: func(p *polls) {
			_ = p.redis[0].Set(p.keys.Heir, "!incb")
		}},
		"an heir before":         {change: func(p *polls) { _ = p.redis[0].Set(p.keys.Heir, "!incb") }},
		"the counter went back":  {change: func(p *polls) { _ = p.redis[0].Set(p.keys.Fence, "1") }},
		"the counter is gone":    {change: func(p *polls) { p.redis[0].Del(p.keys.Fence) }},
		"the lock is another's":  {status: protocol.Taken, lock: "b/incb/1 n=1 lease=10000", change: func(p *polls) { _ = p.redis[0].Set(p.keys.Lock, "b/incb/1 n=1 lease=10000") }},
		"the lock is of a later": {status: protocol.Taken, lock: "a/inca/9 n=1 lease=10000", change: func(p *polls) { _ = p.redis[0].Set(p.keys.Lock, "a/inca/9 n=1 lease=10000") }},
		"the lock is gone":       {status: protocol.Planted, change: func(p *polls) { p.redis[0].Del(p.keys.Lock) }},
	} {
		t.Run(name, func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
				p.counters("41")
				a := p.voter("a")
				token := a.wins(1)
				for range 2 {
					a.renew(testLease, token, c.heir, fit)
				}
				lock, counter := cmp.Or(c.lock, p.get(0, p.keys.Lock)), p.get(0, p.keys.Fence)
				time.Sleep(testLease / 2)
				if c.change != nil {
					c.change(p)
				}
				if got := a.renew(testLease, token, c.heir, fit).Answers[0]; got.Status != cmp.Or(c.status, protocol.Renewed) {
					t.Errorf("%+v", got)
				}
				if got := p.get(0, p.keys.Lock); got != lock {
					t.Errorf("the lock is %q, want %q", got, lock)
				}
				if ttl := p.redis[0].TTL(p.keys.Lock); c.status != protocol.Taken && ttl != testLease {
					t.Errorf("the lock lives for %v", ttl)
				}
				if got := p.get(0, p.keys.Fence); got != counter {
					t.Errorf("the counter is %s, want %s", got, counter)
				}
				if got, ttl := p.get(0, p.keys.Heir), p.redis[0].TTL(p.keys.Heir); got != c.reserved || ttl != c.reservedFor {
					t.Errorf("reserved for %q, for %v", got, ttl)
				}
			})
		})
	}
}

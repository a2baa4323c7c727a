package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// What is no number, or no string at all, is named and stops the script before it has
// written anything.
func TestKeysOfAnotherKindAreNamed(t *testing.T) {
	k := protocol.KeysOf("mandate", "orders")
	for _, key := range []string{k.Lock, k.Fence, k.New, k.Pause, k.Heir} {
		atThePolls(t, 1, func(t *testing.T, p *polls) {
			p.counters("1")
			p.redis[0].Del(key)
			_, _ = p.redis[0].Push(key, "a list")
			before := p.redis[0].Dump()
			tally := p.voter("a").loses()
			if err := tally.Answers[0].Err; err == nil || !strings.HasPrefix(err.Error(), "MANDATE key "+key+" holds another type") || !rediserr.Permanent(err) {
				t.Errorf("%s: %v", key, err)
			}
			if after := p.redis[0].Dump(); after != before {
				t.Errorf("%s: the script wrote\n%s", key, after)
			}
		})
	}
	for _, fence := range []string{"12x", "-1", "1.5", "1e3", "", " 1"} {
		atThePolls(t, 1, func(t *testing.T, p *polls) {
			p.counters(fence)
			if err := p.voter("a").loses().Answers[0].Err; err == nil || !strings.Contains(err.Error(), "MANDATE key "+k.Fence+" holds no number") {
				t.Errorf("counter %q: %v", fence, err)
			}
		})
	}
}

// What stands in the way for much longer than a lease was not put there by us, or the
// clock of the node was set back: it must not block the election for that long. What
// was put there in order keeps its end.
func TestForeignTTLIsCutShort(t *testing.T) {
	k := protocol.KeysOf("mandate", "orders")
	const ours = "x/inc/1 n=1 lease=4000 token=1"
	for name, tc := range map[string]struct {
		key, value string
		ttl, want  time.Duration // ttl 0: no end
		status     protocol.Status
	}{
		"a marker without an end":   {k.New, "m", 0, testLease, protocol.Abstains},
		"a marker in order":         {k.New, "m", 2 * testLease, 2 * testLease, protocol.Abstains},
		"a marker beyond it":        {k.New, "m", 2*testLease + time.Millisecond, testLease, protocol.Abstains},
		"a reservation in order":    {k.Heir, "!ghost", 2 * testLease, 2 * testLease, protocol.Reserved},
		"a lock without an end":     {k.Lock, ours, 0, 4 * time.Second, protocol.Held},
		"a lock in order":           {k.Lock, ours, 4 * time.Second, 4 * time.Second, protocol.Held},
		"a lock near its end":       {k.Lock, ours, time.Second, time.Second, protocol.Held},
		"a lock beyond its lease":   {k.Lock, ours, 4*time.Second + time.Millisecond, 4 * time.Second, protocol.Held},
		"a lock that claims none":   {k.Lock, "x/inc/1 n=1 lease=0", time.Second, time.Second, protocol.Held},
		"a lock of another program": {k.Lock, "locked", time.Hour, time.Hour, protocol.Held},
	} {
		t.Run(name, func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
				p.counters("1")
				_ = p.redis[0].Set(tc.key, tc.value)
				if tc.ttl > 0 {
					p.redis[0].SetTTL(tc.key, tc.ttl)
				}
				a := p.voter("a").loses().Answers[0]
				if a.Status != tc.status || a.Left != tc.want {
					t.Errorf("%s for %v, want %s for %v", a.Status, a.Left, tc.status, tc.want)
				}
				if ttl := p.redis[0].TTL(tc.key); ttl != tc.want {
					t.Errorf("the key lives for %v, want %v", ttl, tc.want)
				}
				if tc.status == protocol.Held && a.Holder != tc.value {
					t.Errorf("the holder is %q", a.Holder)
				}
			})
		})
	}
}

// A node that lost its counter alone keeps the end of the marker that it has.
func TestAMarkerIsNotProlonged(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		_ = p.redis[0].Set(p.keys.New, "m")
		p.redis[0].SetTTL(p.keys.New, 3*time.Second)
		if a := p.voter("a").loses().Answers[0]; a.Status != protocol.Abstains || a.Note != "m" || a.Left != 3*time.Second {
			t.Errorf("%+v", a)
		}
	})
}

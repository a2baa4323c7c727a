package quorum

import (
	"cmp"
	"strconv"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Where a node has nothing to say its answer is short, and says the same.
func TestShortAnswerToARenewal(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("41")
		a := p.voter("a")
		token := a.wins(1)
		id := p.get(0, p.keys.ID)
		renews := func(what string, want protocol.Answer) {
			t.Helper()
			want.Status, want.Waiters, want.Subscribers = protocol.Renewed, -1, -1
			got := a.Renew(testLease, token, protocol.Heir{}, fit).Answers[0]
			if got.Settled = false; got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		for range 3 {
			renews("nothing is wrong", protocol.Answer{Fence: token, ID: id})
		}
		_ = p.redis[0].Set(p.keys.Pause, "maintenance")
		renews("paused", protocol.Answer{Fence: token, ID: id, Note: "maintenance"})
		p.redis[0].Del(p.keys.Pause)
		beyond := token + 58
		_ = p.redis[0].Set(p.keys.Fence, strconv.FormatUint(beyond, 10))
		renews("others were granted tokens", protocol.Answer{Fence: beyond, ID: id})
		renews("nothing is wrong again", protocol.Answer{Fence: beyond, ID: id})
		_ = p.redis[0].Set(p.keys.ID, "OTHER1")
		renews("another identity", protocol.Answer{Fence: beyond, ID: "OTHER1"})
		if got := a.Identities(); got != "OTHER1" {
			t.Errorf("the node is known as %q", got)
		}
		p.refuse(0, "SET", "OOM command not allowed when used memory > 'maxmemory'.")
		a.cfg.Advertise = func() string { return "10.0.0.7:8080" }
		before := p.get(0, p.keys.Lock)
		renews("a full memory refuses the new value", protocol.Answer{Fence: beyond, ID: "OTHER1", Holder: before})
	})
}

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
					a.Renew(testLease, token, c.heir, fit)
				}
				lock, counter := cmp.Or(c.lock, p.get(0, p.keys.Lock)), p.get(0, p.keys.Fence)
				time.Sleep(testLease / 2)
				if c.change != nil {
					c.change(p)
				}
				if got := a.Renew(testLease, token, c.heir, fit).Answers[0]; got.Status != cmp.Or(c.status, protocol.Renewed) {
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

// Elections have followers: that a node names the first of them, for a release, lets renewals go the short way still.
func TestShortWayBesideFollowers(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a := p.voter("a")
		token := a.wins(1)
		a.Renew(testLease, token, protocol.Heir{}, fit)
		for first, short := range map[string]bool{"incb": true, "!incb": false} {
			_ = p.redis[0].Set(p.keys.Heir, first)
			args := protocol.RenewArgs(p.get(0, p.keys.Lock), "inca", a.Attempt(), testLease, token, token, protocol.Heir{}, "OTHER1", p.get(0, p.keys.ID))
			v, err := protocol.RenewScript.Run(t.Context(), p.own[0], p.keys.RenewKeys(), args...).Slice()
			if err != nil || (v[0] == int64(protocol.AsShown)) != short {
				t.Errorf("%s goes first: %v, %v", first, v, err)
			}
			if got := p.redis[0].Exists(p.keys.Heir); got != short { // a reservation that the leader does not want is taken back
				t.Errorf("%s goes first, and stays: %v", first, got)
			}
		}
	})
}

// A node whose counter is lower than the token, and known to be, gets the token at the next renewal that reaches it.
func TestShortWayCopiesTheToken(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		p.counters("1")
		a := p.voter("a")
		token := a.wins(40)
		lock := p.get(0, p.keys.Lock)
		_ = p.redis[0].Set(p.keys.Fence, "9")
		_ = p.redis[0].Set(p.keys.ID, "NODEID")
		args := protocol.RenewArgs(lock, "inca", a.Attempt(), testLease, token, 9, protocol.Heir{}, "OTHER1", "NODEID")
		if got := p.run(0, protocol.RenewScript, p.keys.RenewKeys(), args...); got.Status != protocol.Renewed || got.Fence != token {
			t.Errorf("%+v", got)
		}
		if got := p.get(0, p.keys.Fence); got != strconv.FormatUint(token, 10) {
			t.Errorf("the counter is %s, the token %d", got, token)
		}
	})
}

// What a node did not confirm may have been taken there all the same: an identity that was offered once is not
// offered again, or a node that loses its data could get back the one that it had.
func TestIdentityIsOfferedOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		lost bool // the answer in which the node names the identity that it took
	}{{"the node took it", false}, {"the answer was lost", true}} {
		t.Run(c.name, func(t *testing.T) {
			atThePolls(t, 3, func(t *testing.T, p *polls) {
				p.counters("1")
				a := p.voter("a")
				token := a.wins(1)
				a.Renew(testLease, token, protocol.Heir{}, fit) // the nodes know the script
				time.Sleep(time.Second)
				seen := map[string]bool{p.get(1, p.keys.ID): true}
				for i := range 4 {
					p.redis[1].FlushAll()
					a.lines[1].answersLost.Store(c.lost && i%2 == 0) // then there is another connection
					a.Renew(testLease, token, protocol.Heir{}, fit)
					time.Sleep(time.Second)
					a.lines[1].answersLost.Store(false)
					id := p.get(1, p.keys.ID)
					if id == "" || seen[id] {
						t.Errorf("loss %d: the node has the identity %q, and had %v", i+1, id, seen)
					}
					seen[id] = true
				}
			})
		})
	}
}

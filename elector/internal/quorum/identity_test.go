package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// A node keeps its identity, whoever asks it; every node has another one. It comes
// with the answers, and the lock names it from the next request on.
func TestNodesHaveIdentities(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		token := a.wins(1)
		time.Sleep(time.Second) // the last node may answer later
		ids := a.Identities()
		if known := ids.Known(); len(known) != 3 || known[0] == known[1] || known[1] == known[2] || known[2] == known[0] {
			t.Fatalf("identities %q", ids)
		}
		a.renew(testLease, token, protocol.Heir{}, fit)
		time.Sleep(time.Second)
		for i := range p.redis {
			if lock := p.get(i, p.keys.Lock); !strings.Contains(lock, " ids="+string(ids)+" ") {
				t.Errorf("node %d: its lock says %q, the identities are %q", i, lock, ids)
			}
		}
		b.loses()
		if b.Identities() != ids {
			t.Errorf("b was told %q, a %q", b.Identities(), ids)
		}
	})
}

// A node that lost its data is another one: its old self may still run elsewhere.
func TestNodeThatForgotHasAnotherIdentity(t *testing.T) {
	for _, by := range []string{"claim", "renewal"} {
		t.Run("by "+by, func(t *testing.T) {
			atThePolls(t, 3, func(t *testing.T, p *polls) {
				p.counters("1")
				a, b := p.voter("a"), p.voter("b")
				token := a.wins(1)
				time.Sleep(time.Second)
				before := a.Identities().Known()
				p.redis[1].FlushAll()
				if by == "claim" {
					b.loses()
				}
				a.renew(testLease, token, protocol.Heir{}, fit)
				time.Sleep(time.Second)
				a.drain()
				after := a.Identities().Known()
				if after[0] != before[0] || after[1] == before[1] || after[2] != before[2] || after[1] != p.get(1, p.keys.ID) {
					t.Errorf("before %q, after %q; the node says %q", before, after, p.get(1, p.keys.ID))
				}
			})
		})
	}
}

// What somebody else wrote there is no identity, and is replaced.
func TestForeignIdentityIsReplaced(t *testing.T) {
	atThePolls(t, 1, func(t *testing.T, p *polls) {
		for _, value := range []string{"", "a b", "a,b", "-", "ä", strings.Repeat("A", 17)} {
			_ = p.redis[0].Set(p.keys.ID, value)
			p.counters("1")
			a := p.voter("a")
			token := a.wins(1)
			if id := p.get(0, p.keys.ID); id == value || len(id) != protocol.IdentityLength || string(a.Identities()) != id {
				t.Errorf("%q became %q, and a knows %q", value, id, a.Identities())
			}
			a.Releasing(token, protocol.Heir{}, nil).Try(testLease)
		}
	})
}

// onRequest calls f before a node runs a command.
func (p *polls) onRequest(node int, f func(cmd string)) {
	p.redis[node].Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool {
		f(strings.ToUpper(cmd))
		return false
	})
}

// Who comes without the identities asks for them first; who knows them does not.
func TestMeetingTheNodes(t *testing.T) {
	atThePolls(t, 3, func(t *testing.T, p *polls) {
		p.counters("1")
		a, b := p.voter("a"), p.voter("b")
		b.lines[0].cut.Store(true)
		if b.Meet(t.Context()); b.Identities() != "" {
			t.Errorf("nodes without identities gave %q", b.Identities())
		}
		a.wins(1)
		if b.Meet(t.Context()); b.Identities() != "" {
			t.Error("asked twice in vain within a lease and a half")
		}
		time.Sleep(testLease * 3 / 2)
		if b.Meet(t.Context()); len(b.Identities().Known()) != 2 {
			t.Errorf("met %q", b.Identities())
		}
		if b.wins(1); !strings.Contains(b.lock.String(), " ids=-,") {
			t.Errorf("the claim said %q", b.lock)
		}
		p.onRequest(1, func(cmd string) {
			if cmd == "GET" {
				t.Error("a node that is known was asked")
			}
		})
		b.Meet(t.Context())
	})
}

package quorum

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// The newest event that no majority has recorded goes along with the next announcement, or is recorded when the nodes
// answer a claim. What a node has refused is not repeated: only an operator can change that.
func TestMissedEventIsRecordedLater(t *testing.T) {
	for fault, want := range map[string]string{"LOADING": "two three", "OOM": "three"} {
		for _, next := range []string{"announcement", "claim"} {
			sub(t, fault+"/"+next, 1, func(t *testing.T, p *cluster) {
				a := p.voter("a")
				a.Keep()
				a.WaitIdle(time.Minute)
				p.refuse(0, map[string]string{"LOADING": "EVALSHA", "OOM": "XADD"}[fault], fault)
				for _, event := range []string{"one", "two"} {
					a.Announce("elected 7  ", []byte(event))
					a.WaitIdle(time.Minute)
				}
				a.Claim(t.Context(), 1, nil, "")
				a.WaitIdle(time.Minute)
				p.refuse(0, "", "")
				events := p.messages(0, p.keys.Events, 1)
				if next == "announcement" {
					a.Announce("elected 8  ", []byte("three"))
				} else {
					_ = p.redis[0].Set(p.keys.Lock, "b/abc/1 n=1 lease=10000 token=5")
					a.Claim(t.Context(), 1, nil, "")
					a.WaitIdle(time.Minute)
					a.Announce("elected 8  ", []byte("three"))
				}
				a.WaitIdle(time.Minute)
				a.Claim(t.Context(), 1, nil, "")
				a.WaitIdle(time.Minute)
				entries, _ := p.redis[0].Stream(p.keys.History)
				var got []string
				for _, e := range entries {
					got = append(got, e.Values[1])
				}
				if strings.Join(got, " ") != want {
					t.Errorf("history: %q", got)
				}
				if got := events(); len(got) != 1 || got[0] != "elected 8  three" {
					t.Errorf("published: %q", got)
				}
			})
		}
	}
}

// A release that lapses in the background, when the next term was announced in vain, does not take the place of its begin; but the
// end of a term takes that of its own begin.
func TestNewestMissedEventIsKept(t *testing.T) {
	for _, want := range []string{"released one", "elected two"} {
		sub(t, want, 1, func(t *testing.T, p *cluster) {
			a := p.voter("a")
			p.refuse(0, "EVALSHA", "LOADING")
			a.Announce("elected 1  ", []byte("elected one"))
			a.WaitIdle(time.Minute)
			r := a.Releasing(1, protocol.Heir{}, []byte("released one"))
			if want == "elected two" {
				a.Announce("elected 2  ", []byte(want))
				a.WaitIdle(time.Minute)
			}
			r.Missed()
			p.refuse(0, "", "")
			a.Keep()
			a.WaitIdle(time.Minute)
			entries, _ := p.redis[0].Stream(p.keys.History)
			if len(entries) != 1 || entries[0].Values[1] != want {
				t.Errorf("history: %q", entries)
			}
		})
	}
}

// An announcement keeps the history and the name of its election for a while, and drops names without an event
// for longer.
func TestAnnouncementKeepsHistoryAndName(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		m := p.redis[0]
		_, _ = m.ZAdd(p.keys.Names, float64(time.Now().Add(-protocol.KeptFor-time.Minute).UnixMilli()), "long gone")
		a := p.voter("a")
		a.Announce("elected 7  ", []byte("one"))
		a.WaitIdle(time.Minute)
		names, err := m.ZMembers(p.keys.Names)
		if err != nil || len(names) != 1 || names[0] != p.keys.Election {
			t.Errorf("the names are %q, %v", names, err)
		}
		for _, key := range []string{p.keys.History, p.keys.Names} {
			if left := m.TTL(key); left != protocol.KeptFor {
				t.Errorf("%s lives for %v", key, left)
			}
		}
	})
}

// An election that flaps for weeks does not fill the memory of a node. (Redis may keep up to a hundred entries more.)
func TestHistoryIsCapped(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		a := p.voter("a")
		for i := range protocol.WholeHistory {
			a.Announce("", []byte(strconv.Itoa(i)))
			a.WaitIdle(time.Minute)
		}
		entries, _ := p.redis[0].Stream(p.keys.History)
		newest := strconv.Itoa(protocol.WholeHistory - 1)
		if n := len(entries); n < protocol.MaxEntries || n >= protocol.WholeHistory || entries[n-1].Values[1] != newest {
			t.Errorf("%d of %d entries are kept", n, protocol.WholeHistory)
		}
	})
}

// announce has all elections announce an event, as they do when a process takes them over.
func (all *process) announce(event string) {
	for _, v := range all.voters {
		v.Announce("", []byte(event))
	}
}

func (all *process) waitIdle() {
	for _, v := range all.voters {
		v.WaitIdle(time.Minute)
	}
}

// recorded fails the test unless the history of that election has these events.
func (all *process) recorded(node, election int, events ...string) {
	all.t.Helper()
	var got []string
	entries, _ := all.cluster.redis[node].Stream(all.voters[election].cfg.Keys.History)
	for _, e := range entries {
		got = append(got, e.Values[1])
	}
	if !slices.Equal(got, events) {
		all.t.Errorf("the history of election %d on node %d has %q, want %q", election, node, got, events)
	}
}

// Hundreds of elections that announce something at once cost a few calls, of a bounded size; and each has its events in their order.
func TestAnnouncementsTravelTogether(t *testing.T) {
	for _, n := range []int{1, 3} {
		sub(t, fmt.Sprintf("n=%d", n), n, func(t *testing.T, p *cluster) {
			const elections = 150
			all := p.process(elections)
			all.took()
			began := time.Now()
			all.announce("one")
			all.announce("two")
			all.waitIdle()
			calls, sum := all.took()
			if sum < 2*2*elections || len(calls) > 2*elections/10 { // each for the history, and for the name
				t.Errorf("%d requests came in %d calls: %v", sum, len(calls), calls)
			}
			if took := time.Since(began); took > time.Duration(len(calls)+2)*trip { // they make a connection
				t.Errorf("%d calls took %v", len(calls), took)
			}
			for node := range p.redis {
				for i := range elections {
					all.recorded(node, i, "one", "two")
				}
			}
		})
	}
}

// Announcements to a node that hangs delay neither what else it is sent, nor announcements to the others.
func TestStuckAnnouncementsDelayNothingElse(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		all := p.process(9)
		all.watch(0, func(calls []testredis.Request, _ *server.Peer) bool {
			if calls[0].Script == testredis.ScriptAnnounce {
				time.Sleep(time.Minute)
			}
			return false
		})
		all.announce("one")
		began := time.Now()
		all.renewed(all.renew(testLease, nil))
		if took := time.Since(began); took > 4*trip { // they make a connection
			t.Errorf("renewals took %v", took)
		}
		time.Sleep(2 * trip)
		for i := range all.voters {
			all.recorded(1, i, "one")
			all.recorded(2, i, "one")
		}
		all.waitIdle()
		// It is bounded by the time that a request has to be sent, and that of its answer.
		if took, limit := time.Since(began), 2*nodes.ConnectLimits*all.voters[0].cfg.CallTimeout; took > limit {
			t.Errorf("they were given up after %v, want %v at most", took, limit)
		}
	})
}

// An event is published, and then recorded; what is not allowed does not stand in the way of the rest.
func TestAnnounceWithoutRights(t *testing.T) {
	for name, tc := range map[string]struct {
		denied         string
		events, stream int
	}{
		"to all":              {"", 1, 1},
		"no right to publish": {"PUBLISH", 0, 1},
		"no room for history": {"XADD", 1, 0},
	} {
		sub(t, name, 1, func(t *testing.T, p *cluster) {
			events := p.messages(0, p.keys.Events, 1)
			if tc.denied != "" {
				p.refuse(0, tc.denied, "NOPERM")
			}
			a := p.voter("a")
			a.Announce("elected 7  ", []byte("news"))
			a.WaitIdle(time.Minute)
			if got := events(); len(got) != tc.events || tc.events == 1 && got[0] != "elected 7  news" {
				t.Errorf("published %q", got)
			}
			entries, _ := p.redis[0].Stream(p.keys.History)
			if len(entries) != tc.stream || tc.stream == 1 && !slices.Equal(entries[0].Values, []string{"event", "news"}) {
				t.Errorf("history: %v", entries)
			}
		})
	}
}

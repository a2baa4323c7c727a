package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// A report that a node did not record is recorded when it answers the next request after a
// while; it is no news by then: nothing is published again.
func TestReportIsRecordedLater(t *testing.T) {
	for _, fault := range []string{"OOM", "away"} {
		t.Run(fault, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, p *cluster) {
				a := p.voter("a")
				events := p.messages(0, p.keys.Events, 1)
				if fault == "OOM" {
					p.refuse(0, "XADD", "OOM")
				} else {
					p.refuse(0, "EVALSHA", "LOADING")
				}
				for _, event := range []string{"one", "two"} {
					a.Announce(Report{Event: []byte(event), Head: "elected 7  "})
				}
				a.WaitIdle(time.Minute)
				for range 3 { // while it goes on
					time.Sleep(time.Second)
					a.Claim(t.Context(), 1, nil, "")
					a.WaitIdle(time.Minute)
				}
				p.refuse(0, "", "")
				time.Sleep(time.Minute)
				for range 3 {
					a.Claim(t.Context(), 1, nil, "")
					a.WaitIdle(time.Minute)
				}
				entries, _ := p.redis[0].Stream(p.keys.History)
				if len(entries) != 2 || entries[0].Values[1] != "one" || entries[1].Values[1] != "two" {
					t.Errorf("history: %v", entries)
				}
				want := 0
				if fault == "OOM" {
					want = 2
				}
				if got := events(); len(got) != want {
					t.Errorf("published: %q", got)
				}
			})
		})
	}
}

// Reports that a node does not record are bounded: the newest stay.
func TestUnrecordedReportsAreBounded(t *testing.T) {
	rec := &recorder{}
	for i := range 3 * maxUnrecorded {
		rec.keep(append(rec.unrecorded, Report{Head: strconv.Itoa(i)}))
	}
	if got := rec.unrecorded; len(got) != maxUnrecorded || got[0].Head != strconv.Itoa(2*maxUnrecorded) {
		t.Errorf("%d reports, from %v on", len(got), got[0].Head)
	}
}

// A report keeps the history and the name of its election for a while, and drops names without an event
// for longer; also where a node refuses a call with keys of two slots.
func TestReportKeepsHistoryAndName(t *testing.T) {
	for _, refusal := range append(apart, "") {
		bubble(t, 1, func(t *testing.T, p *cluster) {
			m := p.redis[0]
			m.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
				all := protocol.ParseCalls(cmd, args...)
				if len(all) == 0 || refusal == "" || all[0].Keys[0] == all[0].Keys[1] {
					return false
				}
				c.WriteError(refusal)
				return true
			})
			_, _ = m.ZAdd(p.keys.Names, float64(time.Now().Add(-protocol.KeptFor-time.Minute).UnixMilli()), "long gone")
			a := p.voter("a")
			a.Announce(Report{Event: []byte("one"), Head: "elected 7  "})
			a.WaitIdle(time.Minute)
			names, err := m.ZMembers(p.keys.Names)
			if err != nil || len(names) != 1 || names[0] != p.keys.Election {
				t.Errorf("%q: the names are %q, %v", refusal, names, err)
			}
			for _, key := range []string{p.keys.History, p.keys.Names} {
				if left := m.TTL(key); left != protocol.KeptFor {
					t.Errorf("%q: %s lives for %v", refusal, key, left)
				}
			}
		})
	}
}

// An election that flaps for weeks does not fill the memory of a node. (Redis may keep up to a hundred entries more.)
func TestHistoryIsCapped(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		a := p.voter("a")
		for i := range protocol.WholeHistory {
			a.Announce(Report{Event: []byte(strconv.Itoa(i))})
			a.WaitIdle(time.Minute)
		}
		entries, _ := p.redis[0].Stream(p.keys.History)
		newest := strconv.Itoa(protocol.WholeHistory - 1)
		if n := len(entries); n < protocol.MaxEntries || n >= protocol.WholeHistory || entries[n-1].Values[1] != newest {
			t.Errorf("%d of %d entries are kept", n, protocol.WholeHistory)
		}
	})
}

// announce has all elections report, as they do when a process hands them over.
func (all *process) announce(event string) {
	for _, v := range all.voters {
		v.Announce(Report{Event: []byte(event)})
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

// Hundreds of elections that report at once cost a few calls, of a bounded size; and each has its reports in their order.
func TestReportsTravelTogether(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, p *cluster) {
				const elections = 150
				all := p.process(elections)
				all.took()
				began := time.Now()
				all.announce("one")
				all.announce("two")
				all.waitIdle()
				calls, sum := all.took(), 0
				for _, c := range calls {
					if sum += c; c > maxBatch {
						t.Errorf("a call for %d elections", c)
					}
				}
				if sum != 2*elections || len(calls) > 2*elections/10 {
					t.Errorf("%d reports came in %d calls: %v", sum, len(calls), calls)
				}
				if took := time.Since(began); took > time.Duration(len(calls))*trip {
					t.Errorf("%d calls took %v", len(calls), took)
				}
				for node := range p.redis {
					for i := range elections {
						all.recorded(node, i, "one", "two")
					}
				}
			})
		})
	}
}

// Reports to a node that hangs delay neither what else it is sent, nor reports to the others.
func TestStuckReportsDelayNothingElse(t *testing.T) {
	bubble(t, 3, func(t *testing.T, p *cluster) {
		all := p.process(9)
		all.watch(0, func(calls []protocol.Call, _ *server.Peer) bool {
			if calls[0].Script == protocol.ScriptAnnounce {
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
		if took, limit := time.Since(began), 2*connectLimits*all.voters[0].cfg.CallTimeout; took > limit {
			t.Errorf("they were given up after %v, want %v at most", took, limit)
		}
	})
}

// Reports that are not sent in time are kept, and the node gets them when it answers again.
func TestReportsThatCanNotBeSentAreKept(t *testing.T) {
	bubble(t, 1, func(t *testing.T, p *cluster) {
		all := p.process(5)
		all.voters[0].line(0, testredis.Down)
		all.announce("one")
		all.announce("two")
		all.waitIdle()
		all.voters[0].line(0, testredis.Fault{})
		time.Sleep(time.Second)
		if tally := all.voters[1].renew(testLease, all.tokens[1], protocol.Heir{}, fit); !tally.Majority(protocol.Renewed) {
			t.Fatal(errors.Join(all.voters[1].troubles()...))
		}
		all.waitIdle()
		all.recorded(0, 1, "one", "two")
		all.recorded(0, 2)
	})
}

// A report is published, and then recorded; what is not allowed does not stand in the way of the rest.
func TestAnnounceWithoutRights(t *testing.T) {
	for name, tc := range map[string]struct {
		head, denied   string
		events, stream int
	}{
		"to all":              {head: "elected 7  ", events: 1, stream: 1},
		"published already":   {stream: 1},
		"no right to publish": {head: "elected 7  ", denied: "PUBLISH", stream: 1},
		"no room for history": {head: "elected 7  ", denied: "XADD", events: 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, p *cluster) {
				events := p.messages(0, p.keys.Events, 1)
				if tc.denied != "" {
					p.refuse(0, tc.denied, "NOPERM")
				}
				a := p.voter("a")
				a.Announce(Report{Event: []byte("news"), Head: tc.head})
				a.WaitIdle(time.Minute)
				if got := events(); len(got) != tc.events || tc.events == 1 && got[0] != "elected 7  news" {
					t.Errorf("published %q", got)
				}
				entries, _ := p.redis[0].Stream(p.keys.History)
				if len(entries) != tc.stream || tc.stream == 1 && !slices.Equal(entries[0].Values, []string{"event", "news"}) {
					t.Errorf("history: %v", entries)
				}
			})
		})
	}
}

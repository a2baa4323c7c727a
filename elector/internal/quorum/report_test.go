package quorum

import (
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// A report that a node did not record is recorded when it answers the next request after a
// while; it is no news by then: nothing is published again.
func TestReportIsRecordedLater(t *testing.T) {
	for _, fault := range []string{"OOM", "away"} {
		t.Run(fault, func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
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
		atThePolls(t, 1, func(t *testing.T, p *polls) {
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
	atThePolls(t, 1, func(t *testing.T, p *polls) {
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

package elector

import (
	"strings"
	"testing"
	"time"
)

// Whoever has access to Redis can write to the channels and to the history.
// These are all the places that read from there, beside parseEvent.

// FuzzHistory reads entries, one a line, of two nodes.
func FuzzHistory(f *testing.F) {
	ev := sampleEvent()
	f.Add(string(ev.encode()), `{"v":1,"kind":"elected","election":"orders","token":9007199254740991,"time":"2026-11-01T02:03:03Z"}`, uint64(0))
	f.Add("{}\n\nnull", `{"v":1,"kind":"released","election":"orders","token":3,"time":"0001-01-01T00:00:00Z"}`, uint64(5))
	f.Fuzz(func(t *testing.T, a, b string, fence uint64) {
		st := Status{Election: "orders", Nodes: []NodeStatus{{Fence: fence}}, Leader: &Leader{Token: 7}}
		records := recordsOf(eventsOf([][]string{strings.Split(a, "\n"), strings.Split(b, "\n")}, st), st.Leader, time.Now())
		for i, r := range records {
			if fence > 0 && r.Token > fence {
				t.Fatalf("a term that no node has granted: %+v", r)
			}
			if i > 0 && compareIDs(r.id, records[i-1].id) >= 0 { // two terms of one token are two candidates
				t.Fatalf("not newest first, or twice: %+v", records)
			}
		}
	})
}

// FuzzOpen: whatever stands in a URL, its password is in no error.
func FuzzOpen(f *testing.F) {
	f.Add("redis", "user", "", "h:6379/2?read_timeout=1s")
	f.Add("rediss", "", "#/?%zz", "h")
	f.Add("redis+sentinel", "u", "", "h:26379?master_name=m&addr=h2:1")
	f.Add("redis+cluster", "u", "@", "[::1]:7000?addr=:&addr=")
	f.Add("unix", "", "", "/run/redis.sock?db=x")
	f.Add("http", "%", ":", "\x00")
	f.Add("redis", "u:p@x?", "", "h:6379")
	f.Fuzz(func(t *testing.T, scheme, user, tail, rest string) {
		const password = "h7nter2"
		for _, raw := range []string{scheme + "://" + user + ":" + password + tail + "@" + rest, scheme + user + tail + rest} {
			q, err := Open(raw)
			if err == nil {
				q.Close()
				continue
			}
			if strings.Contains(err.Error(), password) {
				t.Fatalf("%q: the error shows the password: %v", raw, err)
			}
		}
	})
}

package elector

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

func sampleEvent() Event {
	return Event{
		Version: eventVersion, Kind: EventReleased, Election: "orders", Candidate: "pod-1/a", Advertise: "http://[::1]:80/?a=b", Token: maxToken,
		Reason: ReasonUnhealthy, Detail: "probe: \"no\"\n\u2028", Time: time.Date(2026, 11, 1, 2, 3, 4, 5, time.UTC),
	}
}

func TestEventRoundTrip(t *testing.T) {
	for _, ev := range []Event{sampleEvent(), {Version: 1, Kind: EventVacant, Election: "e", Time: time.Unix(0, 0).UTC()}} {
		if got, ok := parseEvent(string(ev.encode())); !ok || got != ev {
			t.Errorf("got %+v, want %+v", got, ev)
		}
	}
}

func TestEventDetailIsBounded(t *testing.T) {
	for name, detail := range map[string]string{
		"long":           strings.Repeat("x", 1<<20),
		"escapes":        strings.Repeat("\x00", 1<<20),
		"cut in a rune":  strings.Repeat("x", 999) + strings.Repeat("ö", 1000),
		"not even UTF-8": strings.Repeat("\xff", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			ev := sampleEvent()
			ev.Detail, ev.Candidate, ev.Advertise = detail, strings.Repeat("\"", protocol.MaxName), strings.Repeat("\"", protocol.MaxAdvertise)
			b := ev.encode()
			if len(b) > protocol.MaxMessage {
				t.Fatalf("%d bytes", len(b))
			}
			got, ok := parseEvent(string(b))
			if !ok || len(got.Detail) > 4000 || !utf8.ValidString(got.Detail) {
				t.Fatalf("detail of %d bytes", len(got.Detail))
			}
			if len(detail) > 0 && detail[0] == 'x' && !strings.HasSuffix(got.Detail, "...") {
				t.Errorf("a reader can't see that %q was cut", got.Detail[len(got.Detail)-10:])
			}
		})
	}
}

func TestParseEventRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"empty":          "",
		"no JSON":        "hello",
		"another JSON":   `[1]`,
		"null":           `null`,
		"no version":     `{"kind":"elected","election":"e"}`,
		"no kind":        `{"v":1,"election":"e"}`,
		"no election":    `{"v":1,"kind":"elected"}`,
		"huge token":     `{"v":1,"kind":"elected","election":"e","token":9007199254740992}`,
		"negative token": `{"v":1,"kind":"elected","election":"e","token":-1}`,
		"too long":       `{"v":1,"kind":"elected","election":"e","detail":"` + strings.Repeat("x", protocol.MaxMessage) + `"}`,
	} {
		if ev, ok := parseEvent(s); ok || ev != (Event{}) {
			t.Errorf("%s: %v, %+v", name, ok, ev)
		}
	}
	// A later version may know more.
	if _, ok := parseEvent(`{"v":2,"kind":"polished","election":"e","shine":{"x":1}}`); !ok {
		t.Error("a later version's event is refused")
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add(string(sampleEvent().encode()))
	f.Add(`{"v":1,"kind":"elected","election":"e","time":"2026-01-01T00:00:00Z"}`)
	f.Add(`{"v":1,"kind":"elected","election":"e","time":"9999-12-31T23:59:59.999999999-23:59"}`)
	f.Add(`{"v":1,"kind":"skipped","election":"e","count":-1,"detail":"\ud800"}`)
	f.Add("{")
	f.Fuzz(func(t *testing.T, s string) {
		ev, ok := parseEvent(s)
		if !ok {
			return
		}
		again, ok := parseEvent(string(ev.encode()))
		if len(ev.Detail) > 1000 {
			return // cut on the way
		}
		if !ok {
			if len(s) > protocol.MaxMessage/8 { // escapes may make a foreign event longer than ours can be
				return
			}
			t.Fatalf("parsed %+v, but not its encoding", ev)
		}
		if !again.Time.Equal(ev.Time) {
			t.Fatalf("time %v became %v", ev.Time, again.Time)
		}
		again.Time = ev.Time
		if again != ev {
			t.Fatalf("%+v became %+v", ev, again)
		}
	})
}

package peers

import (
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Anyone with access to Redis can write to the channels. These are the places that read
// what candidates tell each other.

func FuzzParseRequest(f *testing.F) {
	candidate := Candidate{ID: "a", Incarnation: "ABC", Role: "following", Healthy: true, Priority: 3, RunningFor: time.Hour}
	for _, q := range []request{
		{Kind: rollCall, Election: "e", Nonce: "N1"}, {Kind: stepDown, Election: "e", Nonce: "N1", Token: 7, To: "ABC", Note: "a note"},
		{Kind: info, Election: "e", Candidate: &candidate}, {Kind: paused, Election: "e", Note: "\xff"},
	} {
		f.Add(string(q.encode()))
	}
	f.Add(`{"v":1,"kind":"roll-call","election":"e","nonce":"*"}`)
	f.Add(`{"v":1,"kind":"card","election":"e","card":{"running_ms":-1,"healthy_for_ms":-9223372036854775808}}`)
	f.Add(`{"v":1,"kind":"card","election":"e","card":{"priority":1e99}}`)
	f.Fuzz(func(t *testing.T, s string) {
		q := parseRequest(s)
		if q == nil || q.Version != protocol.Version && q.Kind == "" { // of another protocol, of which nothing is known
			return
		}
		if strings.ContainsAny(q.Nonce, " \n\r{}*") || strings.ContainsAny(q.To, " \n\r") || len(q.Nonce) > 64 || len(q.To) > 64 {
			t.Fatalf("answers would go to channel %q, the seat to %q", q.Nonce, q.To)
		}
		if len(q.Note) > protocol.MaxReason+len("...") {
			t.Fatalf("a note of %d bytes", len(q.Note))
		}
		bounded(t, q.Candidate)
		if len(s) > protocol.MaxMessage/8 { // escapes may make a foreign one longer than ours can be
			return
		}
		if again := parseRequest(string(q.encode())); again == nil || again.Kind != q.Kind || again.Token != q.Token || again.To != q.To {
			t.Fatalf("%+v became %+v", q, again)
		}
	})
}

func FuzzParseAnswer(f *testing.F) {
	candidate := Candidate{ID: "a", Incarnation: "ABC", Role: "leading", Token: 7}
	f.Add(string(Answer{Candidate: &candidate}.encode()))
	f.Add(string(Answer{Refused: "no"}.encode()))
	f.Add(`{"v":1,"card":{"id":"a","incarnation":"b","healthy_for_ms":-5,"token":18446744073709551616}}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, s string) {
		a, ok := parseAnswer(s)
		if !ok {
			return
		}
		bounded(t, a.Candidate)
		if a.Candidate != nil && (a.Candidate.ID == "" || a.Candidate.Incarnation == "") {
			t.Fatalf("no candidate answered: %+v", a.Candidate)
		}
	})
}

// bounded checks the bounds of a candidate: it decides who is asked first, and is kept.
func bounded(t *testing.T, c *Candidate) {
	t.Helper()
	const dots = len("...")
	if c != nil && (c.RunningFor < 0 || c.HealthyFor < 0 || len(c.ID) > protocol.MaxName+dots || len(c.Incarnation) > 64+dots || len(c.Detail) > protocol.MaxDetail+dots) {
		t.Fatalf("a candidate out of bounds: %+v", *c)
	}
}

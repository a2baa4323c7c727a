package protocol

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// What answers in Redis' place, or a script of a later version, may say anything. What is
// not an answer of ours is no vote: neither for a claim nor against a lease.
func TestRepliesThatAreNone(t *testing.T) {
	for _, reply := range []any{
		nil, int64(1), []any{}, []any{int64(1)}, []any{nil}, []any{"won", "7"}, []any{"won 7 "}, []any{"won 7 ", "b/B/1", int64(1), int64(1)},
		"won", "won ", "won 7", "won  ", "won seven ", "won -1 ", "won 18446744073709551616 ", "won 1.5 ", " 7", "OK",
		"won 9007199254740991 ", "won 18446744073709551615 x",
	} {
		if a := parseAnswer(reply); a.Status != Unknown || a.Err == nil {
			t.Errorf("%#v was read as %+v", reply, a)
		}
	}
	if a := ParseReply([]any{"won 7 "}, errors.New("cut"), 0, 1); a.Status != Unknown || a.Fence != 0 {
		t.Errorf("an answer with an error: %+v", a)
	}
	a := parseAnswer([]any{"held 7 ABCDEF", "b/B/1", int64(1500), int64(4), "note", ""})
	if a != (Answer{Status: Held, Fence: 7, Holder: "b/B/1", Left: 1500 * time.Millisecond, Subscribers: 4, Note: "note", ID: "ABCDEF"}) {
		t.Errorf("%+v", a)
	}
	a = parseAnswer([]any{"held 7 ", "b/B/1", int64(1500), int64(4), "", "OOM no"})
	if a.Status != Held || a.Err == nil || a.Err.Error() != "OOM no" {
		t.Errorf("it could not have granted a claim: %+v", a)
	}
	// Nobody who counts nothing may be taken for a crowd of none.
	if a := parseAnswer("raised 7 "); a != (Answer{Status: Raised, Fence: 7, Subscribers: -1}) {
		t.Errorf("%+v", a)
	}
}

// FuzzReplies: what a Redis (or whatever answers in its place) says to a script is
// an answer or an error, and never a panic.
func FuzzReplies(f *testing.F) {
	f.Add("won 12 ", "", int64(0), int64(3), 0)
	f.Add("held 12 K3QX7A", "a/B/1 ", int64(9000), int64(-1), 6)
	f.Add("mine 18446744073709551616 x", "", int64(-2), int64(1<<62), 6)
	f.Add("mine 12 ", "note", int64(1), int64(1), 5)
	f.Add("won 12 ", "", int64(0), int64(0), 1)
	f.Fuzz(func(t *testing.T, line, text string, left, count int64, size int) {
		fields := []any{line, text, left, count, text, nil}
		if count%2 == 0 { // of other types
			fields = []any{line, left, text, nil, count, text}
		}
		fields = fields[:min(max(size, 0), len(fields))]
		a, alone := parseAnswer(fields), parseAnswer(line)
		if a.Err == nil && (alone.Err != nil || alone.Status != a.Status || len(fields) != 6) {
			t.Fatalf("%v was read as %+v", fields, a)
		}
		refused := len(fields) == 6 && fields[5] == text && text != ""
		if a.Err != nil && a.Status != Unknown && !refused || alone.Err != nil && alone.Status != Unknown {
			t.Fatalf("%v is an error, and was read as %+v and %+v", fields, a, alone)
		}
		words := strings.Split(line, " ")
		if number := len(words) > 2 && strings.Trim(words[1], "0123456789") == ""; alone.Err == nil && !number {
			t.Fatalf("%q was read as %+v", line, alone)
		}
	})
}

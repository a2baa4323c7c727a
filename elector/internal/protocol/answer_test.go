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
		nil, "won", int64(1), []any{}, []any{"won"}, []any{int64(1), "7"}, []any{nil, "7"},
		[]any{"won", "seven"}, []any{"won", "-1"}, []any{"won", "18446744073709551616"}, []any{"won", nil}, []any{"won", "1.5"},
	} {
		if a := parseAnswer(reply); a.Status != Unknown || a.Err == nil {
			t.Errorf("%#v was read as %+v", reply, a)
		}
	}
	if a := ParseReply([]any{[]any{"won", "7"}}, errors.New("cut"), 0, 1); a.Status != Unknown || a.Fence != 0 {
		t.Errorf("an answer with an error: %+v", a)
	}
	a := parseAnswer([]any{"held", "7", "b/B/1", int64(1500), int64(4), "note", "ABCDEF"})
	if a != (Answer{Status: Held, Fence: 7, Holder: "b/B/1", Left: 1500 * time.Millisecond, Subscribers: 4, Note: "note", ID: "ABCDEF"}) {
		t.Errorf("%+v", a)
	}
	// Nobody who counts nothing may be taken for a crowd of none.
	if a := parseAnswer([]any{"raised", "7"}); a != (Answer{Status: Raised, Fence: 7, Subscribers: -1}) {
		t.Errorf("%+v", a)
	}
}

// FuzzReplies: what a Redis (or whatever answers in its place) says to a script is
// an answer or an error, and never a panic.
func FuzzReplies(f *testing.F) {
	f.Add("won 12", int64(0), int64(3), 2)
	f.Add("held 12 a/B/1 ", int64(9000), int64(-1), 7)
	f.Add("mine 18446744073709551616 x", int64(-2), int64(1<<62), 7)
	f.Add("mine 12  note K3QX7A", int64(1), int64(1), 5)
	f.Add("", int64(0), int64(0), 0)
	f.Fuzz(func(t *testing.T, words string, left, count int64, size int) {
		var fields []any
		for i := range min(max(size, 0), 10) {
			switch w := strings.Split(words, " "); {
			case i == 1 && left%2 == 0:
				fields = append(fields, count)
			case i >= 3 && i <= 5 && count%2 == 0:
				fields = append(fields, left)
			case i < len(w):
				fields = append(fields, w[i])
			default:
				fields = append(fields, nil)
			}
		}
		a := parseAnswer(fields)
		if a.Status == Unknown && a.Err == nil || len(fields) < 2 && a.Status != Unknown {
			t.Fatalf("%v was read as %+v", fields, a)
		}
		if parseAnswer(words).Status != Unknown || parseAnswer(nil).Status != Unknown {
			t.Fatal("a reply of another type was believed")
		}
	})
}

package protocol

import (
	"strings"
	"testing"
)

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

package protocol

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestLockValueIsTheDocumentedLine(t *testing.T) {
	b := LockValue{Candidate: "pod-1", Incarnation: "ABC123", Seq: 7, Nodes: 3, Lease: 10 * time.Second, Identities: "K3QX7A,-,9BTR2M", Advertise: "http://h:1/?a=b", Token: 12}
	const line = "pod-1/ABC123/7 n=3 lease=10000 v=1 ids=K3QX7A,-,9BTR2M addr=http://h:1/?a=b token=12"
	if got := b.String(); got != line {
		t.Errorf("got %q, want %q", got, line)
	}
	if got, err := ParseLockValue(line); err != nil || got != b {
		t.Errorf("got %+v, %v", got, err)
	}
	// A later version may add fields.
	if got, err := ParseLockValue(line + " zone=a"); err != nil || got != b {
		t.Errorf("with a field more: %+v, %v", got, err)
	}
}

// Lists are told apart by how many nodes they have together.
func TestListsOfNodesDiffer(t *testing.T) {
	for _, c := range []struct {
		ids, others string
		differ      bool
	}{
		{"A,B,C", "A,B,C", false},
		{"A,B,C", "C,A,B", false},
		{"A,B,C", "A,B,D", true},
		{"A,B,C", "D,E,F", true},
		{"A,B,C", "D", true},
		{"A,B,-", "A,B,D", false}, // what is not known may be D
		{"A,-,-", "B,C,D", true},
		{"A,B,C", "A,A,B", false}, // one server under two names is another complaint
		{"", "A,B,C", false},
		{"A,B,C", "", false},
	} {
		a, b := Identities(c.ids), Identities(c.others)
		if a.Differ(b.Known(), 3) != c.differ || b.Differ(a.Known(), 3) != c.differ {
			t.Errorf("%s and %s: differ is not %v", c.ids, c.others, c.differ)
		}
	}
}

func TestParseLockValueRefuses(t *testing.T) {
	for name, s := range map[string]string{
		"empty":             "",
		"a word":            "locked",
		"a redsync value":   "kJ8j7d9s0sLw==",
		"two parts":         "a/b n=1 lease=1000",
		"no candidate":      "/inc/1 n=1 lease=1000",
		"no incarnation":    "a//1 n=1 lease=1000",
		"odd incarnation":   "a/b-c/1 n=1 lease=1000",
		"seq no number":     "a/b/x n=1 lease=1000",
		"negative seq":      "a/b/-1 n=1 lease=1000",
		"no n":              "a/b/1 lease=1000",
		"no lease":          "a/b/1 n=1",
		"n is zero":         "a/b/1 n=0 lease=1000",
		"n no number":       "a/b/1 n=x lease=1000",
		"lease is zero":     "a/b/1 n=1 lease=0",
		"lease is negative": "a/b/1 n=1 lease=-5",
		"token no number":   "a/b/1 n=1 lease=1000 token=x",
		"lease overflows":   "a/b/1 n=1 lease=9223372036854775807",
	} {
		if b, err := ParseLockValue(s); err == nil {
			t.Errorf("%s: accepted as %+v", name, b)
		} else if b != (LockValue{}) || !strings.Contains(err.Error(), "not one of ours") {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
	if _, err := ParseLockValue(strings.Repeat("x", 1<<20)); err == nil || len(err.Error()) > 1000 {
		t.Error("the error repeats a megabyte")
	}
}

func TestHolderIsWhoHoldsAMajority(t *testing.T) {
	const a, b = "a/A/3 n=3 lease=1000", "b/B/1 n=3 lease=1000"
	for name, c := range map[string]struct {
		values  []string
		attempt string
		token   uint64
		left    time.Duration // of a majority; the i-th lock lives for i seconds
	}{
		"nobody":                             {nil, "", 0, 0},
		"a minority":                         {[]string{a + " token=7", b + " token=8"}, "", 0, 0},
		"one token":                          {[]string{a + " token=7", b + " token=9", a + " token=7"}, "a/A/3", 7, time.Second},
		"a late grant on the third":          {[]string{a + " token=12", a + " token=7", a + " token=7"}, "a/A/3", 7, 2 * time.Second},
		"raised to the highest, not renewed": {[]string{a + " token=5", a + " token=7"}, "a/A/3", 7, time.Second},
		"another attempt is another holder":  {[]string{a + " token=5", "a/A/4 n=3 lease=1000 token=5"}, "", 0, 0},
		"an older version's value":           {[]string{a, a}, "a/A/3", 0, time.Second},
		"somebody else's lock":               {[]string{"locked", "locked"}, "locked", 0, time.Second},
	} {
		var locks []Lock
		for i, v := range c.values {
			locks = append(locks, Lock{v, time.Duration(i+1) * time.Second})
		}
		in, ok := HolderOf(locks, 2)
		if ok != (c.attempt != "") || in.Attempt != c.attempt || in.Token != c.token || in.Left != c.left {
			t.Errorf("%s: %+v, %v", name, in, ok)
		}
	}
}

func FuzzParseLockValue(f *testing.F) {
	f.Add("pod-1", "ABC123", uint64(7), 3, int64(10000), "http://h:1")
	f.Add("a/b/c", "0", uint64(0), 1, int64(1), "")
	f.Add("ü=1", "zZ9", uint64(1<<63), 5, int64(86400000), "addr=x n=2")
	f.Add("c n=3 lease=1 ids=A,-", "A", uint64(1), 3, int64(1), "n=3 lease=1 ids=A,B,C")
	f.Fuzz(func(t *testing.T, candidate, incarnation string, seq uint64, nodes int, ms int64, addr string) {
		// Garbage, in any place, is no panic; what is read from it means the same
		// when it is written again.
		for _, s := range []string{candidate, candidate + "/" + incarnation + "/1 " + addr, addr} {
			if b, err := ParseLockValue(s); err == nil {
				if again, err := ParseLockValue(b.String()); err != nil || again != b {
					t.Fatalf("%q is %+v, but its String is %+v, %v", s, b, again, err)
				}
			}
		}
		if !word(candidate) || len(candidate) == 0 || !word(addr) || !alnum(incarnation) || nodes < 1 || ms < 1 || ms > 86400000 {
			return // Config refuses it
		}
		b := LockValue{Candidate: candidate, Incarnation: incarnation, Seq: seq, Nodes: nodes, Lease: time.Duration(ms) * time.Millisecond, Advertise: addr}
		for _, b.Identities = range []Identities{"", "K3QX7A,-,9BTR2M"} {
			if got, err := ParseLockValue(b.String()); err != nil || got != b {
				t.Fatalf("%+v became %+v, %v", b, got, err)
			}
		}
	})
}

// word is what Config accepts as an id.
func word(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar
	})
}

func alnum(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r > 127 || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// A lock of another protocol is known by its version alone, whatever the other fields have become.
func TestLockOfAnotherVersion(t *testing.T) {
	for value, want := range map[string]OtherVersion{
		"x/abc/1 n=1 lease=60000 v=2":  2,
		"x/abc/1 lease=60s v=2 n=none": 2,
		"x/abc/1 v=2.1 n=1":            -1,
	} {
		var other OtherVersion
		if b, err := ParseLockValue(value); !errors.As(err, &other) || other != want || b.Candidate != "x" {
			t.Errorf("%s: %+v, %v", value, b, err)
		}
	}
}

package fence

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// The slots are those that CLUSTER KEYSLOT of Redis 7.0 answers.
func TestSlotsAreThoseOfTheServer(t *testing.T) {
	for key, want := range map[string]uint16{
		"": 0, "123456789": 12739, "somekey": 11058, "foo{hash_tag}": 2515, "foo{bar}{zap}": 5061,
		"foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "foo{bar": 15278, "}x{y}": 12222, "\x80\xff": 1384,
	} {
		if got := slot(key); got != want {
			t.Errorf("slot(%q) is %d, want %d", key, got, want)
		}
	}
}

// FuzzMark reads what anyone may have written over a mark, as the client and as the guard's error have it: nothing but
// a token refuses less than all.
func FuzzMark(f *testing.F) {
	for _, mark := range []string{"5", "+5", "-5", "", "\xff\x00", "9007199254740992", "18446744073709551616", "a>b> 5", " 4 script: x", "0x10", "007"} {
		f.Add(mark, uint64(7))
	}
	r := &Redis{mark: "{orders}:mark"}
	f.Fuzz(func(t *testing.T, mark string, token uint64) {
		newest, parsed := strconv.ParseUint(mark, 10, 64)
		foreign := parsed != nil || newest > maxToken || mark[0] == '+'
		for _, err := range []error{judge(r.mark, mark, token), r.explain(errors.New("MANDATESTALE <"+mark+"> script: 5c"), token)} {
			if accepted := !foreign && newest <= token; accepted != (err == nil) || errors.Is(err, ErrForeignMark) != foreign {
				t.Fatalf("%q for the token %d: %v", mark, token, err)
			}
			if err != nil && (!errors.Is(err, ErrStale) || strings.ContainsFunc(err.Error(), func(c rune) bool { return !unicode.IsPrint(c) })) {
				t.Fatalf("%q", err)
			}
		}
	})
}

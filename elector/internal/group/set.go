package group

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// MaxShards bounds the shards in what other processes may have written.
const MaxShards = protocol.MaxShards

// Set is a set of shards, in ascending order. Its text form is short and readable: "0-3,7".
type Set []int

// MarshalJSON encodes the set in its text form.
func (s Set) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

func (s Set) String() string {
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j+1 < len(s) && s[j+1] == s[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(s[j]))
		}
		i = j + 1
	}
	return b.String()
}

var errSet = errors.New("no list of shards")

// UnmarshalJSON decodes the text form. It refuses shards beyond MaxShards, so that a few bytes
// can't become a list that fills the memory.
func (s *Set) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	all := Set{}
	if *s = all; text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from < 0 || to < from || to >= MaxShards || len(all) > 0 && from <= all[len(all)-1] {
			return errSet
		}
		for i := from; i <= to; i++ {
			all = append(all, i)
		}
	}
	*s = all
	return nil
}

// Has reports whether a shard is in the set.
func (s Set) Has(shard int) bool {
	_, ok := slices.BinarySearch(s, shard)
	return ok
}

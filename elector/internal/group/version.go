package group

import (
	"strconv"
	"strings"
)

// Version orders the plans of a group: by the term of the assigner that made them, and within
// a term by their sequence. The zero value is that of no plan.
type Version struct{ Token, Seq uint64 }

// After reports whether v is later than o.
func (v Version) After(o Version) bool {
	return v.Token > o.Token || v.Token == o.Token && v.Seq > o.Seq
}

func (v Version) String() string {
	if v == (Version{}) {
		return "" // as on a node without a plan
	}
	return strconv.FormatUint(v.Token, 10) + "." + strconv.FormatUint(v.Seq, 10)
}

func parseVersion(s string) (v Version) {
	token, seq, _ := strings.Cut(s, ".")
	t, err := strconv.ParseUint(token, 10, 64)
	n, err2 := strconv.ParseUint(seq, 10, 64)
	if err != nil || err2 != nil {
		return Version{}
	}
	return Version{Token: t, Seq: n}
}

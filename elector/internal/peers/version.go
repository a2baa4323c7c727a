package peers

import (
	"cmp"
	"strings"
)

// newer compares two versions as Semantic Versioning 2.0.0 orders them, with or without the v that Go writes in
// front: above zero when a is the newer one. ok is false when either is no such version.
func newer(a, b string) (order int, ok bool) {
	x, xOK := parseVersion(a)
	y, yOK := parseVersion(b)
	if !xOK || !yOK {
		return 0, false
	}
	for i := range x.core {
		if c := compareNumbers(x.core[i], y.core[i]); c != 0 {
			return c, true
		}
	}
	return comparePre(x.pre, y.pre), true
}

// semantic is a version; its build metadata orders nothing.
type semantic struct {
	core [3]string
	pre  []string // empty: a release
}

func parseVersion(s string) (v semantic, ok bool) {
	s, build, built := strings.Cut(strings.TrimPrefix(s, "v"), "+")
	core, pre, isPre := strings.Cut(s, "-")
	numbers := strings.Split(core, ".")
	if len(numbers) != len(v.core) || built && !identifiers(strings.Split(build, "."), false) {
		return v, false
	}
	for i, n := range numbers {
		if !isNumber(n) || leadingZero(n) {
			return v, false
		}
		v.core[i] = n
	}
	if isPre {
		v.pre = strings.Split(pre, ".")
	}
	return v, identifiers(v.pre, true)
}

// identifiers reports whether all are such as may stand behind a version.
func identifiers(all []string, preRelease bool) bool {
	for _, id := range all {
		if id == "" || strings.Trim(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
			return false
		}
		if preRelease && isNumber(id) && leadingZero(id) {
			return false
		}
	}
	return true
}

// isNumber is about digits alone: no sign, and no bound.
func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func leadingZero(s string) bool { return len(s) > 1 && s[0] == '0' }

// compareNumbers compares two without leading zeros, of any length.
func compareNumbers(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// comparePre: a release is newer than what leads to it, a number is older than a word, and the longer list is newer.
func comparePre(a, b []string) int {
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(b), len(a))
	}
	for i := range min(len(a), len(b)) {
		x, y := isNumber(a[i]), isNumber(b[i])
		c := cmp.Compare(a[i], b[i])
		switch {
		case x && y:
			c = compareNumbers(a[i], b[i])
		case x:
			c = -1
		case y:
			c = 1
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// latest is the newest of the semantic versions; empty: there is none.
func latest(versions []string) (found string) {
	for _, v := range versions {
		if _, ok := parseVersion(v); !ok {
			continue
		}
		if order, _ := newer(v, found); found == "" || order > 0 {
			found = v
		}
	}
	return found
}

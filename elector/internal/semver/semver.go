// Package semver orders versions by Semantic Versioning 2.0.0, with or without the v that Go writes in front.
package semver

import (
	"strings"

	"golang.org/x/mod/semver"
)

// canonical is s as Go writes versions; empty: it is none by Semantic Versioning 2.0.0, which has no short forms (v1.2).
func canonical(s string) string {
	v := "v" + strings.TrimPrefix(s, "v")
	if !semver.IsValid(v) || semver.Canonical(v)+semver.Build(v) != v {
		return ""
	}
	return v
}

// Valid reports whether s is a version.
func Valid(s string) bool { return canonical(s) != "" }

// Compare compares two versions: above zero when a is the newer one. ok is false when either is no
// version.
func Compare(a, b string) (order int, ok bool) {
	a, b = canonical(a), canonical(b)
	return semver.Compare(a, b), a != "" && b != ""
}

// Latest is the newest of the versions; empty: there is none.
func Latest(versions []string) (found string) {
	for _, v := range versions {
		if semver.Compare(canonical(v), canonical(found)) > 0 {
			found = v
		}
	}
	return found
}

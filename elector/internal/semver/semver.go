// Package semver orders versions by Semantic Versioning 2.0.0, with or without the v that Go
// writes in front.
package semver

import (
	"strings"

	"golang.org/x/mod/semver"
)

// canonical returns s with a leading v; empty if s is no version by Semantic Versioning 2.0.0, which
// has no short forms (v1.2).
func canonical(s string) string {
	v := "v" + strings.TrimPrefix(s, "v")
	if !semver.IsValid(v) || semver.Canonical(v)+semver.Build(v) != v {
		return ""
	}
	return v
}

// Valid reports whether s is a version.
func Valid(s string) bool { return canonical(s) != "" }

// Compare returns a positive order when version a is newer than b, and a negative one when it is
// older. ok is false when either is not a version.
func Compare(a, b string) (order int, ok bool) {
	a, b = canonical(a), canonical(b)
	return semver.Compare(a, b), a != "" && b != ""
}

// Latest returns the newest of the versions; empty if none of them is a version.
func Latest(versions []string) (found string) {
	for _, v := range versions {
		if semver.Compare(canonical(v), canonical(found)) > 0 {
			found = v
		}
	}
	return found
}

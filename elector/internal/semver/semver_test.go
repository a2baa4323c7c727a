package semver

import "testing"

// The order is that of Semantic Versioning's own example, and more.
func TestVersionsAreOrdered(t *testing.T) {
	ordered := []string{
		"0.9.9", "v1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0",
		"v1.0.9", "1.0.10", "1.2.0", "1.10.0", "2.0.0-0.20261122090000-d6eeb56a1b2c", "2.0.0", "10.0.0", "10.0.18446744073709551616",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			order, ok := Compare(a, b)
			if !ok || (order > 0) != (i > j) || (order < 0) != (i < j) {
				t.Errorf("%s and %s: %d, %t", a, b, order, ok)
			}
		}
	}
	if order, ok := Compare("1.2.3+build.1", "v1.2.3+build.2"); order != 0 || !ok {
		t.Errorf("builds: %d, %t", order, ok)
	}
	for _, no := range []string{"", "v", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.x", "1.2.-3", "+1.2.3", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3+", "d6eeb56", "(devel)", "1.2.3 "} {
		if Valid(no) {
			t.Errorf("%q is taken for a version", no)
		}
	}
}

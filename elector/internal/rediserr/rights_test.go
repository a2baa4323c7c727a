package rediserr

import (
	"testing"
)

// What doctor tried is granted in one line, unless something else than a right is missing.
func TestGrantAll(t *testing.T) {
	const denied = ": ERR The user executing the script can't run this command or subcommand"
	for _, tc := range []struct {
		user    string
		refused []string
		line    string
	}{
		{"w", []string{"PEXPIRE" + denied, "PUBSUB" + denied}, "ACL SETUSER w +pexpire +pubsub|numsub"},
		{"w", []string{"PEXPIRE" + denied, "SET: OOM command not allowed when used memory > 'maxmemory'."}, ""},
		{"", []string{"PEXPIRE" + denied}, ""},
		{"w", nil, ""},
	} {
		if got := GrantAll(tc.user, tc.refused); got != tc.line {
			t.Errorf("%q for %q, want %q", got, tc.refused, tc.line)
		}
	}
}

package rediserr

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
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

// Redis takes a client without a password for the user default, whatever name it was given. That name is
// mostly the password, in the wrong place.
func TestUserWithoutPasswordIsDefault(t *testing.T) {
	for want, o := range map[string]*redis.Options{
		"default": {Username: "hunter2"}, "u": {Username: "u", Password: "p"},
		"f": {Username: "f", CredentialsProviderContext: func(context.Context) (string, string, error) { return "f", "p", nil }},
	} {
		c := redis.NewClient(o)
		if got := UserOf(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		_ = c.Close()
	}
}

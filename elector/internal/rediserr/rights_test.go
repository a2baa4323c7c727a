package rediserr

import (
	"context"
	"errors"
	"strings"
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

// What lacks may also be too much: a number of a database, or another prefix.
func TestGrantNamesWhatMayBeWrong(t *testing.T) {
	for msg, want := range map[string]string{
		"NOPERM this user has no permissions to run the 'select' command":                                            "+select; or correct the number of the database in the URL; docs",
		"NOPERM this user has no permissions to access one of the keys used as arguments":                            "(+get %R~p:lock); or correct the prefix; docs",
		"NOPERM No permissions to access a key":                                                                      "(+get %R~p:lock); or correct the prefix; docs",
		"NOPERM this user has no permissions to run the 'get' command":                                               "(+get %R~p:lock); docs",
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments": "or correct the prefix; docs",
	} {
		if got := Grant("w", Needs(errors.New(msg), "+get %R~p:lock")); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", msg, got, want)
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

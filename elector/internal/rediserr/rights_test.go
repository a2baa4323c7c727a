package rediserr

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

const (
	scripts = "ERR The user executing the script can't " // of Redis 7.0
	noperm  = "NOPERM this user has no permissions to "
)

// Who lacks a right gets a line to paste: an operator for what was refused, a candidate for all that it needs, whatever
// the server has named. What lacks may also be too much: a number of a database, or another prefix.
func TestMissingRightIsGranted(t *testing.T) {
	const see = "; docs/redis.md lists what each user needs"
	for _, tc := range []struct {
		user, msg, needs, says string
	}{
		{"w", noperm + "run the 'client|list' command", "", "the Redis user w lacks a right, grant it: ACL SETUSER w +client|list" + see},
		{"w", noperm + "do this", "", "the Redis user w lacks a right" + see},
		{"", noperm + "do this", "", "the Redis user lacks a right" + see},
		{"", noperm + "run the 'set' command", "", "the Redis user lacks a right, grant it: +set" + see},
		{"r", noperm + "access one of the channels used as arguments", "+publish &p:{e}:roll", "ACL SETUSER r (+publish &p:{e}:roll)" + see},
		{"r", noperm + "run the 'hgetall' command", "+zrevrange +hgetall +time %R~p:{e}:*", "ACL SETUSER r (+zrevrange +hgetall +time %R~p:{e}:*)" + see},
		{"w", noperm + "run the 'select' command", "+get %R~p:lock", "+select; or correct the number of the database in the URL" + see},
		{"w", noperm + "run the 'get' command", "+get %R~p:lock", "(+get %R~p:lock)" + see},
		{"w", noperm + "access one of the keys used as arguments", "+get %R~p:lock", "(+get %R~p:lock); or correct the prefix" + see},
		{"w", "NOPERM No permissions to access a key", "+get %R~p:lock", "(+get %R~p:lock); or correct the prefix" + see},
		{"w", scripts + "access at least one of the keys mentioned in the command arguments", "+get %R~p:lock", "or correct the prefix" + see},
	} {
		err := error(&NodeError{Node: "n", User: tc.user, Err: Needs(fmt.Errorf("wrapped: %w", errors.New(tc.msg)), tc.needs)})
		if tc.needs == "" {
			err = &NodeError{Node: "n", User: tc.user, Err: errors.New(tc.msg)}
		}
		if !strings.Contains(err.Error(), tc.says+")") || !Denied(err) {
			t.Errorf("%q does not say %q", err, tc.says)
		}
	}
}

// A candidate that lacks a right is granted all in one round: a server names a missing command, of a key or a channel
// only that it is missing, and never the next one.
func TestCandidateIsGrantedAllAtOnce(t *testing.T) {
	acl, err := os.ReadFile("../../../docs/redis.acl")
	servertest.Must(t, err)
	line, _, _ := strings.Cut(string(acl), "\n")
	_, rights, found := strings.Cut(line, "user mandate on >change-me ")
	if !found {
		t.Fatalf("docs/redis.acl begins with %q", line)
	}
	other := strings.NewReplacer("~mandate:", "(~p:", "&mandate:", "&p:").Replace(rights)
	for msg, says := range map[string]string{
		noperm + "run the 'eval' command":                                                other + "); docs",
		"NOPERM User w has no permissions to run the 'evalsha' command":                  other + "); docs",
		"NOPERM No permissions to access a channel":                                      other + "); docs",
		noperm + "access one of the channels used as arguments":                          other + "); docs",
		noperm + "access one of the keys used as arguments":                              other + "); or correct the prefix; docs",
		"NOPERM No permissions to access a key":                                          other + "); or correct the prefix; docs",
		scripts + "access at least one of the keys mentioned in the command arguments":   other + "); or correct the prefix; docs",
		scripts + "publish to the channel mentioned in the command":                      other + "); docs",
		scripts + "run this command or subcommand: 'pexpire'":                            other + "); docs",
		"ERR ACL failure in script: User w has no permissions to run the 'hset' command": other + "); docs",
		noperm + "run the 'select' command":                                              other + " +select); or correct the number of the database in the URL; docs",
		noperm + "run the 'cluster|slots' command":                                       other + " +cluster|slots); docs",
	} {
		for _, err := range []error{
			&NodeError{Node: "n", User: "w", Err: CandidateNeeds(fmt.Errorf("wrapped: %w", errors.New(msg)), "p")},
			CandidateNeeds(&NodeError{Node: "n", User: "w", Err: Needs(errors.New(msg), "+subscribe &p:{e}:ask")}, "p"),
		} {
			if !strings.Contains(err.Error(), "the Redis user w lacks a right, grant all that candidates need: ACL SETUSER w "+says) || !Permanent(err) {
				t.Errorf("%q does not say %q", err, says)
			}
		}
	}
	for _, err := range []error{nil, errors.New("OOM command not allowed"), errors.New("READONLY You can't write against a read only replica")} {
		if got := CandidateNeeds(err, "p"); got != err { //nolint:errorlint // the same one
			t.Errorf("%v has become %v", err, got)
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

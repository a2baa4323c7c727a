package protocol

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Whoever reads that a right is missing can grant it: the user and the rule are named, as far as they are known.
func TestMissingRightIsNamed(t *testing.T) {
	k := KeysOf("mandate", "orders")
	const (
		scripts = "ERR The user executing the script can't "
		noperm  = "NOPERM this user has no permissions to "
		all     = "docs/redis.md lists what each user needs)"
	)
	for _, tc := range []struct {
		user string
		err  error
		says string
	}{
		{"w", errors.New(scripts + "run this command or subcommand: 'pexpire'"), "(the Redis user w lacks a right, grant it: ACL SETUSER w +pexpire; " + all},
		{"w", errors.New("ERR ACL failure in script: User w has no permissions to run the 'pexpire' command"), "ACL SETUSER w +pexpire;"},
		{"w", errors.New(noperm + "run the 'client|list' command"), "ACL SETUSER w +client|list;"},
		{"w", errors.New(noperm + "access one of the keys used as arguments"), "ACL SETUSER w ~mandate:*;"},
		{"w", errors.New("NOPERM No permissions to access a key"), "ACL SETUSER w ~mandate:*;"},
		{"w", errors.New(scripts + "access at least one of the keys mentioned in the command arguments"), "ACL SETUSER w ~mandate:*;"},
		{"w", errors.New(scripts + "publish to the channel mentioned in the command"), "ACL SETUSER w &mandate:*;"},
		{"w", errors.New(noperm + "do this"), "(the Redis user w lacks a right; " + all},
		{"", errors.New(noperm + "do this"), "(the Redis user lacks a right; " + all},
		{"", errors.New(noperm + "run the 'set' command"), "(the Redis user lacks a right, grant it +set; " + all},
		{"r", rediserr.Needs(errors.New(noperm+"access one of the channels used as arguments"), "+publish &mandate:{orders}:roll"), "ACL SETUSER r (+publish &mandate:{orders}:roll);"},
	} {
		err := &rediserr.NodeError{Node: "n:1", User: tc.user, Err: k.ExplainDenied(fmt.Errorf("wrapped: %w", tc.err))}
		if !strings.Contains(err.Error(), tc.says) || !rediserr.Denied(err) {
			t.Errorf("%q does not say %q", err, tc.says)
		}
	}
	for _, err := range []error{nil, errors.New("OOM command not allowed"), errors.New("READONLY You can't write against a read only replica")} {
		if got := k.ExplainDenied(err); got != err { //nolint:errorlint // the same one
			t.Errorf("%v has become %v", err, got)
		}
	}
}

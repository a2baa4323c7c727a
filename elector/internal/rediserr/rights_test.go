package rediserr

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// The user is that of the options. Whom an embedding program's function would name is not asked for: it may block.
func TestUserOfAClient(t *testing.T) {
	asked := func() (string, string) { panic("asked") }
	for want, c := range map[string]redis.UniversalClient{
		"default": redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}),
		"w":       redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Username: "w"}),
		"":        redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", CredentialsProvider: asked}),
		"x":       redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, Username: "x", CredentialsProvider: asked}),
	} {
		if got := UserOf(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		_ = c.Close()
	}
}

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

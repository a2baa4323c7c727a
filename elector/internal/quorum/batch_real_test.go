package quorum

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// callFor is the keys and arguments of one call for n elections.
func callFor(n int, keys func(protocol.Keys) []string, args func(protocol.Keys, string) []any) (allKeys []string, allArgs []any) {
	for i := range n {
		k := protocol.KeysOf("mandate", fmt.Sprint("orders-", i))
		value := protocol.LockValue{Candidate: "a", Incarnation: "inca", Seq: 1, Nodes: 3, Lease: testLease}.String()
		allKeys, allArgs = append(allKeys, keys(k)...), append(allArgs, args(k, value)...)
	}
	return allKeys, allArgs
}

// What a Redis refuses in the middle of a call for several elections is the outcome of those that it
// was refused to: a script that has written goes on, and one that may not write tries for each.
func TestRealRefusalsAreEachElections(t *testing.T) {
	s := servertest.Redis(t)
	c := s.Client(t)
	ctx := t.Context()
	const n = 3
	claimKeys, claims := callFor(n, protocol.Keys.ClaimKeys, func(k protocol.Keys, value string) []any {
		return protocol.ClaimArgs(value, "inca", 1, testLease, 1, "", k, "IDENTI", "")
	})
	renewKeys, renewals := callFor(n, protocol.Keys.RenewKeys, func(_ protocol.Keys, value string) []any {
		return protocol.RenewArgs(value+" token=2", "inca", 1, testLease, 2, 2, protocol.Heir{}, "IDENTI", "")
	})
	call := func(c redis.Scripter, s protocol.ElectionScript, keys []string, args []any) []protocol.Answer {
		v, err := s.Run(ctx, c, keys, args...).Result()
		var all []protocol.Answer
		for i := range len(args) / s.Args {
			all = append(all, protocol.ParseReply(v, err, i, len(args)/s.Args))
		}
		return all
	}
	set := func(setting, value string) {
		t.Helper()
		if err := c.ConfigSet(ctx, setting, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	all := func(what string, answers []protocol.Answer, want protocol.Status, prefix string) {
		t.Helper()
		for i, a := range answers {
			if a.Status != want || prefix != "" && (a.Err == nil || !strings.HasPrefix(a.Err.Error(), prefix) || !rediserr.Answered(a.Err)) {
				t.Errorf("%s: election %d: %+v", what, i, a)
			}
		}
	}
	for i := range n {
		c.Set(ctx, protocol.KeysOf("mandate", fmt.Sprint("orders-", i)).Fence, "1", 0)
	}
	set("maxmemory", "1")
	all("a claim on a full memory", call(c, protocol.ClaimScript, claimKeys, claims), protocol.Unknown, "OOM ")
	set("maxmemory", "0")
	all("a claim", call(c, protocol.ClaimScript, claimKeys, claims), protocol.Won, "")
	set("maxmemory", "1")
	all("a renewal on a full memory", call(c, protocol.RenewScript, renewKeys, renewals), protocol.Renewed, "")
	set("maxmemory", "0")

	// One of them may go where the others may not.
	first := protocol.KeysOf("mandate", "orders-0")
	c.Set(ctx, first.Heir, protocol.Reservation("incb"), time.Minute) // which its renewal deletes
	err := c.Do(ctx, "ACL", "SETUSER", "mandate", "on", ">secret", "~*", "&*", "+@all", "-del").Err()
	if err != nil {
		t.Fatal(err)
	}
	limited := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "mandate", Password: "secret"})
	defer limited.Close()
	answers := call(limited, protocol.RenewScript, renewKeys, renewals)
	if err := answers[0].Err; !rediserr.Denied(err) || !strings.Contains(err.Error(), "'del'") {
		t.Errorf("the election whose renewal needs DEL: %+v", answers[0])
	}
	all("the others", answers[1:], protocol.Renewed, "")

	if err := c.Do(ctx, "ACL", "SETUSER", "mandate", "+del", "-get").Err(); err != nil {
		t.Fatal(err)
	}
	for i, a := range call(limited, protocol.RenewScript, renewKeys, renewals) {
		if !rediserr.Denied(a.Err) || !strings.Contains(a.Err.Error(), "'get'") {
			t.Errorf("election %d, whose renewal needs GET: %+v", i, a)
		}
	}

	set("min-replicas-to-write", "1")
	all("a renewal without replicas", call(c, protocol.RenewScript, renewKeys, renewals), protocol.Unknown, "NOREPLICAS ")
	set("min-replicas-to-write", "0")
	if err := c.ReplicaOf(ctx, "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	_, err = protocol.RenewScript.Run(ctx, c, renewKeys, renewals...).Result()
	if !redis.IsReadOnlyError(err) {
		t.Errorf("a replica answered the call with %v: its connection stays", err)
	}
}

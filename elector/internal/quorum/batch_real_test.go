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

// callFor is what one call requests for n elections.
func callFor(n int, what protocol.Request) (all []*protocol.Request) {
	for i := range n {
		k, r := protocol.KeysOf("mandate", fmt.Sprint("orders-", i)), what
		r.Keys, r.Incarnation, r.Seq, r.Lease, r.Identity = &k, "inca", 1, testLease.Milliseconds(), "IDENTI"
		r.Value = protocol.LockValue{Candidate: "a", Incarnation: "inca", Seq: 1, Nodes: 3, Lease: testLease, Token: what.Token}.String()
		all = append(all, &r)
	}
	return all
}

// What a Redis refuses in the middle of a call for several elections is the outcome of those that it
// was refused to: a script that has written goes on, and one that may not write tries for each.
func TestRealRefusalsAreEachElections(t *testing.T) {
	s := servertest.Redis(t)
	c := s.Client(t)
	ctx := t.Context()
	const n = 3
	claims, renewals := callFor(n, protocol.Request{Hint: 1}), callFor(n, protocol.Request{Token: 2, Shown: 2})
	call := func(c redis.Scripter, s protocol.ElectionScript, requests []*protocol.Request) []protocol.Answer {
		keys, args := s.Pack(requests...)
		v, err := s.Run(ctx, c, keys, args...).Result()
		var all []protocol.Answer
		for i := range requests {
			all = append(all, protocol.ParseReply(v, err, i, len(requests)))
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
	all("a claim on a full memory", call(c, protocol.ClaimScript, claims), protocol.Unknown, "OOM ")
	set("maxmemory", "0")
	all("a claim", call(c, protocol.ClaimScript, claims), protocol.Won, "")
	set("maxmemory", "1")
	all("a renewal on a full memory", call(c, protocol.RenewScript, renewals), protocol.Renewed, "")
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
	answers := call(limited, protocol.RenewScript, renewals)
	if err := answers[0].Err; !rediserr.Denied(err) || !strings.Contains(err.Error(), "'del'") {
		t.Errorf("the election whose renewal needs DEL: %+v", answers[0])
	}
	all("the others", answers[1:], protocol.Renewed, "")

	if err := c.Do(ctx, "ACL", "SETUSER", "mandate", "+del", "-get").Err(); err != nil {
		t.Fatal(err)
	}
	for i, a := range call(limited, protocol.RenewScript, renewals) {
		if !rediserr.Denied(a.Err) || !strings.Contains(a.Err.Error(), "'get'") {
			t.Errorf("election %d, whose renewal needs GET: %+v", i, a)
		}
	}

	set("min-replicas-to-write", "1")
	all("a renewal without replicas", call(c, protocol.RenewScript, renewals), protocol.Unknown, "NOREPLICAS ")
	set("min-replicas-to-write", "0")
	if err := c.ReplicaOf(ctx, "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	keys, args := protocol.RenewScript.Pack(renewals...)
	_, err = protocol.RenewScript.Run(ctx, c, keys, args...).Result()
	if !redis.IsReadOnlyError(err) {
		t.Errorf("a replica answered the call with %v: its connection stays", err)
	}
}

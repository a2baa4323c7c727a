package quorum

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/internal/servertest"
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
		return protocol.ClaimArgs(value, "inca", 1, testLease, 1, "", k, "IDENTI")
	})
	renewKeys, renewals := callFor(n, protocol.Keys.RenewKeys, func(_ protocol.Keys, value string) []any {
		return protocol.RenewArgs(value+" token=2", "inca", 1, testLease, 2, 2, protocol.Heir{}, "IDENTI", "")
	})
	call := func(c redis.Scripter, s protocol.ElectionScript, keys []string, args []any) []protocol.Answer {
		v, err := s.Run(ctx, c, keys, args...).Result()
		var all []protocol.Answer
		for i, of := range slices.Collect(slices.Chunk(args, s.Args)) {
			all = append(all, protocol.ParseReply(v, err, i, len(args)/s.Args, of))
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

// The same of reports: that one history is another program's, or may not be written, is that election's alone; a full memory is
// refused to each. What is not recorded is published all the same.
func TestRealReportsAreEachElections(t *testing.T) {
	s := servertest.Redis(t)
	c := s.Client(t)
	ctx := t.Context()
	const n = 3
	keys, args := callFor(n, protocol.Keys.AnnounceKeys, func(k protocol.Keys, _ string) []any {
		a := protocol.AnnounceArgs([]byte("one"), &k.Events, &k, new(string))
		return a[:]
	})
	call := func(c redis.Scripter) (all []protocol.Answer) {
		v, err := protocol.AnnounceScript.Run(ctx, c, keys, args...).Result()
		for i := range n {
			all = append(all, protocol.ParseReply(v, err, i, n, nil))
		}
		return all
	}
	messages := c.Subscribe(ctx)
	defer messages.Close()
	for i := range n {
		if err := messages.Subscribe(ctx, protocol.KeysOf("mandate", fmt.Sprint("orders-", i)).Events); err != nil {
			t.Fatal(err)
		}
		if _, err := messages.Receive(ctx); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, answers []protocol.Answer, published bool, refused ...string) {
		t.Helper()
		for i, a := range answers {
			why := refused[i]
			if why == "" && (a.Status != protocol.Recorded || a.Err != nil) || why != "" && (a.Err == nil || !strings.Contains(a.Err.Error(), why) || !rediserr.Answered(a.Err)) {
				t.Errorf("%s: election %d: %+v, want %q", what, i, a, why)
			}
			if !published {
				continue
			}
			if m, err := messages.ReceiveMessage(ctx); err != nil || m.Channel != protocol.KeysOf("mandate", fmt.Sprint("orders-", i)).Events || m.Payload != "one" {
				t.Errorf("%s: published: %v, %v", what, m, err)
			}
		}
	}
	want("reports", call(c), true, "", "", "")
	c.Del(ctx, keys[1])
	c.Set(ctx, keys[1], "x", 0)
	want("a history of another type", call(c), true, "", "WRONGTYPE", "")
	c.Del(ctx, keys[1])
	for i, m := range []string{"1", "0"} {
		if err := c.ConfigSet(ctx, "maxmemory", m).Err(); err != nil {
			t.Fatal(err)
		}
		why := [2]string{"OOM ", ""}[i]
		want("a memory of "+m, call(c), true, why, why, why)
	}
	if err := c.Do(ctx, "ACL", "SETUSER", "mandate", "on", ">secret", "~*", "&*", "+@all", "-xadd").Err(); err != nil {
		t.Fatal(err)
	}
	limited := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "mandate", Password: "secret"})
	defer limited.Close()
	answers := call(limited)
	want("no right", answers, true, " script", " script", " script") // each version of Redis has its own words
	if err := answers[0].Err; !rediserr.Denied(err) {
		t.Errorf("no right: %v", err)
	}
	if err := c.Do(ctx, "ACL", "SETUSER", "mandate", "+xadd", "-publish").Err(); err != nil {
		t.Fatal(err)
	}
	want("no right to publish", call(limited), false, "", "", "")
	if err := c.ReplicaOf(ctx, "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := protocol.AnnounceScript.Run(ctx, c, keys, args...).Result(); !redis.IsReadOnlyError(err) {
		t.Errorf("a replica answered the call with %v: its connection stays", err)
	}
}

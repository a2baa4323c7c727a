package fence_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/fence"
)

// The counter of an election belongs to its nodes: a token written into it by a fence
// would be one that an election has not handed out.
func TestElectionsCounterIsOnlyRead(t *testing.T) {
	m := miniredis.RunT(t)
	r, err := fence.OnElection(client(t, m.Addr()), "", "orders")
	if err != nil {
		t.Fatal(err)
	}
	_ = m.Set(r.Mark(), "5")
	for _, way := range []string{"script", "transaction"} {
		for _, token := range []uint64{5, 7} {
			if err := write(r, way, token, "x"); err != nil {
				t.Errorf("%s, token %d: %v", way, token, err)
			}
			if counter, _ := m.Get(r.Mark()); counter != "5" {
				t.Fatalf("%s with token %d: the counter became %q", way, token, counter)
			}
		}
	}
	if err := r.Raise(t.Context(), 7); err != nil {
		t.Error(err)
	}
	if counter, _ := m.Get(r.Mark()); counter != "5" {
		t.Errorf("Raise made the counter %q", counter)
	}
}

// A mark that can't be read is no mark that refuses: the caller may try again.
func TestMarkThatCanNotBeReadIsNotStale(t *testing.T) {
	m := miniredis.RunT(t)
	r := newRedis(t, client(t, m.Addr()))
	m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
		if cmd == "GET" {
			c.WriteError("NOPERM no permissions to access a key")
		}
		return cmd == "GET"
	})
	for _, way := range []string{"script", "transaction"} {
		if err := write(r, way, 7, "x"); err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "NOPERM") {
			t.Errorf("%s: %v", way, err)
		}
	}
	if m.Exists(list) {
		t.Error("something was written")
	}
}

// What a server refuses as a whole is explained; nothing of it was done.
func TestRefusedTransactionsAreExplained(t *testing.T) {
	m := miniredis.RunT(t)
	for prefix, advice := range map[string]string{"CROSSSLOT": "one hash tag", "EXECABORT": "before anything was done", "LOADING": ""} {
		m.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool {
			if cmd == "EXEC" {
				c.WriteError(prefix + " refused")
			}
			return cmd == "EXEC"
		})
		c := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1})
		err := write(newRedis(t, c), "transaction", 7, "x")
		if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), prefix) || !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: %v", prefix, err)
		}
		if advice == "" && strings.HasPrefix(err.Error(), "fence") {
			t.Errorf("explained as something else: %v", err)
		}
		c.Close()
	}
}

// A mark that holds the token already is not written again: each write of a term would
// be one more for the append-only file and the replicas.
func TestMarkIsWrittenOncePerTerm(t *testing.T) {
	for _, way := range ways {
		m := miniredis.RunT(t)
		r := newRedis(t, client(t, m.Addr()))
		if err := write(r, way, 5, "x"); err != nil {
			t.Fatal(err)
		}
		m.SetTTL(mark, time.Hour) // a SET takes it off
		if err := write(r, way, 5, "x"); err != nil {
			t.Fatal(err)
		}
		if m.TTL(mark) == 0 {
			t.Errorf("%s: written again", way)
		}
		if err := write(r, way, 6, "x"); err != nil {
			t.Fatal(err)
		}
		if m.TTL(mark) != 0 {
			t.Errorf("%s: not written by a newer term", way)
		}
	}
}

// What a caller keeps behind its keys and arguments stays: it may hand out parts of
// one array.
func TestCallersSlicesAreUntouched(t *testing.T) {
	m := miniredis.RunT(t)
	r := newRedis(t, client(t, m.Addr()))
	keys, args := []string{list, "next"}, []any{"x", "next", "last"}
	if err := r.Run(t.Context(), 5, push, keys[:1], args[:1]...).Err(); err != nil {
		t.Fatal(err)
	}
	if keys[1] != "next" || args[1] != "next" || args[2] != "last" {
		t.Errorf("became %q and %q", keys, args)
	}
}

// A transaction whose mark moves each time gives up, with nothing written.
func TestTransactionsGiveUp(t *testing.T) {
	m := miniredis.RunT(t)
	r := newRedis(t, client(t, m.Addr()))
	tries := 0
	m.Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool {
		if cmd == "EXEC" {
			tries++
			_ = m.Set(mark, strconv.Itoa(tries%2)) // other leaders come and go
		}
		return false
	})
	err := write(r, "transaction", 7, "x")
	if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), "nothing was written") || tries != 10 {
		t.Errorf("after %d tries: %v", tries, err)
	}
	if m.Exists(list) {
		t.Error("something was written")
	}
}

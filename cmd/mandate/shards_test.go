package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/shard"
)

// openQuorum opens a quorum until the end of the test.
func openQuorum(t testing.TB, urls ...string) *elector.Quorum {
	t.Helper()
	q, err := elector.Open(urls...)
	must(t, err)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// joinGroup runs a member until the end of the test.
func joinGroup(t *testing.T, url, id string, work shard.Work) {
	t.Helper()
	runMember(t, openQuorum(t, url), shard.Config{Group: "invoices", Shards: 6, ID: id, Lease: 2 * time.Second, Cooldown: time.Hour}, work)
}

// run runs a command on one Redis, and returns what it has printed.
func run(t *testing.T, url string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e servertest.Logbook // maybe from a goroutine that outlives the command
	code = execute(t.Context(), append(args, "--redis", url), &o, &e)
	if slices.Contains(args, "--json") {
		conforms(t, args[0], o.String())
	}
	return code, o.String(), e.String()
}

func TestShards(t *testing.T) {
	url := "redis://" + miniredis.RunT(t).Addr()
	shards := func(args ...string) (code int, out, errs string) {
		return run(t, url, append([]string{"shards", "invoices"}, args...)...)
	}
	if code, _, errs := shards(); code != exitNoLeader || !strings.Contains(errs, "no members of a group invoices: none is running, or Redis refuses them") {
		t.Errorf("without members: exit code %d\n%s", code, errs)
	}

	joinGroup(t, url, "worker-a", func(ctx context.Context, term *shard.Term) error {
		if term.Shard == 4 {
			return errors.New("tenant 4 can't be served")
		}
		<-ctx.Done()
		return nil
	})
	await := func(what ...string) {
		t.Helper()
		must(t, poll(func() error {
			_, out, _ := shards()
			for _, w := range what {
				if !strings.Contains(out, w) {
					return fmt.Errorf("%q is missing:\n%s", w, out)
				}
			}
			return nil
		}))
	}
	await("leaves 4 to others for now", "0-3,5")
	code, out, _ := shards()
	for _, want := range []string{
		"1 of 6 shards have no owner: 4 (every member leaves it to others for now, after failed work or a step-down)",
		"mandate status 'invoices#4' --redis " + url,
		"1, lease 2s",
		"worker-a",
	} {
		if code != exitNoLeader || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %q is missing:\n%s", code, want, out)
		}
	}
	// The group is one row of the list; its pattern shows each shard.
	_, out, _ = run(t, url, "ls")
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	if len(lines) != 2 || !strings.HasPrefix(strings.Join(strings.Fields(lines[1]), " "), "invoices#* 5/6 owned - - 1/1 - 1 of 6 shards have no owner: 4 (") {
		t.Errorf("ls:\n%s", out)
	}
	must(t, poll(func() error { // a shard is listed by the report of its term, which its owner does not wait for
		_, out, errs := run(t, url, "ls", "invoices#*")
		if strings.Count(out, "invoices#") < 7 {
			return fmt.Errorf("its pattern:\n%s%s", out, errs)
		}
		return nil
	}))
	var all []map[string]any
	if _, out, _ := run(t, url, "ls", "--json"); json.Unmarshal([]byte(out), &all) != nil || len(all) < 6 {
		t.Errorf("as JSON:\n%s", out)
	}

	joinGroup(t, url, "worker-b", nil)
	await("all 6 shards have an owner", "worker-a  3      3 ", "worker-b  3      3 ")
	if code, _, errs := shards(); code != 0 {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	_, out, _ = shards("--json")
	var st struct {
		Members []struct {
			ID    string
			Owned []int
		}
	}
	if err := json.Unmarshal([]byte(out), &st); err != nil || len(st.Members) != 2 || len(st.Members[0].Owned) != 3 || len(st.Members[1].Owned) != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}

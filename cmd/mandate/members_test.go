package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// A name with a typing error cordons nothing: whoever typed it learns that, and what names there
// are. One that is known, as an id or as a host, in an election or in a group, costs no word.
func TestCordonOfAnUnknownName(t *testing.T) {
	m := miniredis.RunT(t)
	url := "redis://" + m.Addr()
	s := shell{t, url}
	s.shows(0, "cordon worker-9", "worker-9 is cordoned: it does not campaign", "no candidate, member or host that answers is called worker-9: none answers under the prefix mandate",
		"The cordon is kept for one that starts later; to end it: mandate uncordon worker-9 --redis "+url)
	s.shows(0, "uncordon worker-9", "worker-9 campaigns again")

	a, _ := campaign(t, url, "e", "worker-1")
	servertest.Eventually(t, time.Minute, "worker-1 leads", a.IsLeader)
	for _, id := range []string{"another", "candidate", "whose", "name", "is", "far", "away"} {
		campaign(t, url, "f", id)
	}
	work := func(ctx context.Context, _ *shard.Term) error {
		<-ctx.Done()
		return nil
	}
	joinGroup(t, url, "member-1", work)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, time.Minute, "all answer", func() bool {
		q, err := elector.Open(url)
		if err != nil {
			return false
		}
		defer q.Close()
		used, _, err := q.ElectionsByUse(t.Context())
		if err != nil {
			return false
		}
		n := readMembers(t.Context(), q, used, "")
		return n.complete && len(n.ids) == 9 && n.hosts[host]
	})
	for _, line := range []string{"cordon worker-1", "drain member-1 --yes", "cordon " + host, "cordon far --json"} {
		if out, errs := s.run(0, strings.Fields(line)...); errs != "" || strings.Contains(out, "unknown") {
			t.Errorf("%s: %s%s", line, out, errs)
		}
	}
	s.shows(0, "cordon Worker-2", "Worker-2 is cordoned", "is called Worker-2. Candidates: worker-1, ", "and 4 more; hosts: "+host, "(mandate candidates NAME --redis "+url+" and mandate shards GROUP --redis")
	s.shows(0, "drain member-2 --yes", "member-2 is drained", "is called member-2. Candidates: member-1, ")
	out, errs := s.run(0, "cordon", "worker-2", "--json")
	var got cordonJSON
	if err := json.Unmarshal([]byte(out), &got); err != nil || !got.Unknown || !got.Cordoned || !strings.Contains(errs, "is called worker-2") {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
	s.shows(0, "cordon", "worker-2", "Worker-2", "member-2") // kept nevertheless
	if out, errs := s.run(0, "uncordon", "worker-2", "--json"); strings.Contains(out, "unknown") || errs != "" {
		t.Errorf("%s%s", out, errs)
	}
	t.Setenv("MANDATE_REDIS", url)
	for _, begin := range []string{"worker-", "member-"} {
		var o, e captured
		if execute(t.Context(), []string{"__complete", "cordon", begin}, &o, &e); !strings.Contains(o.String(), begin+"1\n") {
			t.Errorf("completion of %s: %s%s", begin, o.String(), e.String())
		}
	}
}

// Where not all can be read nothing is claimed of a name.
func TestCordonWhereNotAllAnswer(t *testing.T) {
	m := miniredis.RunT(t)
	s := shell{t, "redis://" + m.Addr()}
	_ = m.Set("mandate:{e}:pause", "x")
	_, _ = m.Lpush("mandate:{e}:lock", "x")
	for _, name := range []string{"e/assigner", "e/0"} { // looks like a group, and is none
		_ = m.Set("mandate:{"+name+"}:pause", "x")
	}
	if out, errs := s.run(0, "cordon", "worker-9"); errs != "" || !strings.Contains(out, "worker-9 is cordoned") {
		t.Errorf("%s%s", out, errs)
	}
}

func TestClosest(t *testing.T) {
	names := map[string]bool{"worker-a": true, "worker-b": true, "batch": true, "WORKER-AB": true}
	if got := closest("worker-ab", names); !slices.Equal(got, []string{"WORKER-AB", "worker-a", "worker-b", "batch"}) {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "bc", 1}, {"kitten", "sitting", 3}} {
		if got := edits(c.a, c.b); got != c.want {
			t.Errorf("%s to %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// So is a group that has the name of an election.
func TestRunWithTheNameOfAnElection(t *testing.T) {
	m := miniredis.RunT(t)
	url := "redis://" + m.Addr()
	if err := m.Set("mandate:{orders}:fence", "1700000000000"); err != nil {
		t.Fatal(err)
	}
	const want = "group orders: an election has this name: choose another one, or mandate forget orders if none of its candidates runs any more"
	out, err := exec.Command("mandate", "run", "--group", "orders", "--shards", "4", "--redis", url, "--", "true").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitPermanent || !strings.Contains(string(out), want) {
		t.Errorf("%v\n%s", err, out)
	}
	shell{t, url}.shows(exitPermanent, "serve --group orders --shards 4 --health-url http://127.0.0.1:1 --http 127.0.0.1:0", want)
}

// An election that has the name of a group is refused at the start, with what to do.
func TestRunWithTheNameOfAGroup(t *testing.T) {
	m := miniredis.RunT(t)
	url := "redis://" + m.Addr()
	joinGroup(t, url, "member-1", func(ctx context.Context, _ *shard.Term) error {
		<-ctx.Done()
		return nil
	})
	servertest.Eventually(t, time.Minute, "the group is there", func() bool { return m.Exists("mandate:{invoices}:group") })
	s := shell{t, url}
	out, err := exec.Command("mandate", "run", "--election", "invoices", "--redis", url, "--", "true").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitPermanent ||
		!strings.Contains(string(out), "a group of shards has the name invoices: choose another name for the election (mandate shards invoices shows the group") {
		t.Errorf("%v\n%s", err, out)
	}
	s.shows(exitPermanent, "serve --election invoices --no-lead --http 127.0.0.1:0", "a group of shards has the name invoices: choose another name")
	s.shows(exitPermanent, "serve --election invoices/3 --no-lead --http 127.0.0.1:0", "invoices/3 is an election of the group of shards invoices: choose another name")
	if keys := m.Keys(); slices.Contains(keys, "mandate:{invoices}:fence") || slices.Contains(keys, "mandate:{invoices}:id") {
		t.Errorf("left behind: %q", keys)
	}
}

package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// campaign runs a candidate until the end of the test, or until the returned function is called.
func campaign(t *testing.T, url, election, id string, change ...func(*elector.Config)) (e *elector.Elector, stop func()) {
	t.Helper()
	q, err := elector.Open(strings.Split(url, ",")...)
	if err != nil {
		t.Fatal(err)
	}
	cfg := elector.Config{Election: election, ID: id, Lease: 2 * time.Second, Cooldown: -1, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	e, err = elector.New(q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- e.Run(ctx, func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			return nil
		})
	}()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = q.Close()
	}
	t.Cleanup(stop)
	return e, stop
}

// shell runs commands on one Redis, or on several.
type shell struct {
	t   *testing.T
	url string // several with commas
}

// nodes are the flags that name them.
func (s shell) nodes() (flags []string) {
	for url := range strings.SplitSeq(s.url, ",") {
		flags = append(flags, "--redis", url)
	}
	return flags
}

func (s shell) run(want int, args ...string) (out, errs string) {
	s.t.Helper()
	var o, e captured
	if code := execute(s.t.Context(), append(args, s.nodes()...), &o, &e); code != want {
		s.t.Errorf("%q: exit code %d, want %d\n%s%s", args, code, want, o.String(), e.String())
	}
	return o.String(), e.String()
}

// shows fails unless a command prints all of these.
func (s shell) shows(want int, line string, texts ...string) {
	s.t.Helper()
	out, errs := s.run(want, strings.Fields(line)...)
	flat := strings.Join(strings.Fields(out+errs), " ")
	for _, text := range texts {
		if !strings.Contains(flat, text) {
			s.t.Errorf("%s: no %q in\n%s%s", line, text, out, errs)
		}
	}
}

func TestCordonOfTheLastCandidates(t *testing.T) {
	t.Setenv("MANDATE_BY", "ann")
	url := "redis://" + miniredis.RunT(t).Addr()
	s := shell{t, url}
	s.shows(0, "cordon", "nothing is cordoned under the prefix mandate")
	s.shows(0, "uncordon worker-a", "worker-a was not cordoned")
	a, stop := campaign(t, url, "e", "worker-a")
	servertest.Eventually(t, time.Minute, "worker-a leads", a.IsLeader)
	b, _ := campaign(t, url, "e", "worker-b")
	s.shows(0, "cordon worker-b --reason kernel", "worker-b is cordoned")
	knows := func(e *elector.Elector) {
		t.Helper()
		servertest.Eventually(t, time.Minute, "the candidate knows of its cordon", func() bool {
			roll, err := e.Election().Candidates(t.Context())
			return err == nil && slices.ContainsFunc(roll, func(c elector.CandidateStatus) bool { return c.ID == e.ID() && c.Cordoned != nil })
		})
	}
	knows(b)
	s.shows(0, "cordon", "MEMBER BY SINCE REASON", "worker-b ann")
	s.shows(0, "candidates e", "worker-b following cordoned", "cordoned by ann since", "(kernel)")
	s.shows(0, "status e", "problem no other candidate could take over: worker-b is cordoned by ann", "next mandate uncordon worker-b", "candidates 1/2 able")
	s.shows(exitRefused, "resign e --yes", "worker-b is cordoned")
	s.shows(exitRefused, "transfer e --to worker-b --yes", "cordoned")
	s.shows(exitWarnings, "doctor e", "1 of 2 candidates could lead: worker-b is cordoned (by ann")

	stop()
	s.shows(exitNoLeader, "status e", "problem every candidate is cordoned: worker-b is cordoned by ann", "next mandate uncordon worker-b")
	out, _ := s.run(exitFailures, "doctor", "e")
	if first, rest, _ := strings.Cut(strings.Join(strings.Fields(out), " "), " next mandate uncordon worker-b"); rest == "" || !strings.HasPrefix(first, "problem no leader: every candidate is cordoned (worker-b by ann") {
		t.Errorf("doctor does not begin with the cordon:\n%s", out)
	}
	out, _ = s.run(0, "cordon", "--json")
	var list []elector.Cordon
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 || list[0].ID != "worker-b" || list[0].By != "ann" || list[0].Reason != "kernel" {
		t.Errorf("%v\n%s", err, out)
	}
	s.shows(0, "uncordon worker-b --json", `"id": "worker-b", "cordoned": false`)
	servertest.Eventually(t, time.Minute, "worker-b leads", b.IsLeader)
}

func TestCordonOfAHost(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	url := "redis://" + miniredis.RunT(t).Addr()
	s := shell{t, url}
	a, _ := campaign(t, url, "e", "worker-a")
	servertest.Eventually(t, time.Minute, "worker-a leads", a.IsLeader)
	s.shows(0, "cordon "+host+" --by ann")
	servertest.Eventually(t, time.Minute, "the candidate knows", func() bool {
		roll, err := a.Election().Candidates(t.Context())
		return err == nil && len(roll) == 1 && roll[0].Cordoned != nil
	})
	s.shows(0, "status e", "ok worker-a leads", "cordoned "+host+", cordoned by ann")
	s.shows(0, "uncordon "+host, host+" campaigns again; it was cordoned by ann since")
}

// The last leader is not drained, and it is seen why.
func TestDrainOfTheLastLeader(t *testing.T) {
	url := "redis://" + miniredis.RunT(t).Addr()
	s := shell{t, url}
	a, _ := campaign(t, url, "e", "worker-a")
	servertest.Eventually(t, time.Minute, "worker-a leads", a.IsLeader)
	s.shows(0, "drain worker-a --by ann --reason kernel", "worker-a is drained")
	servertest.Eventually(t, time.Minute, "the candidate knows", func() bool {
		roll, err := a.Election().Candidates(t.Context())
		return err == nil && len(roll) == 1 && roll[0].Cordoned != nil
	})
	s.shows(0, "status e", "problem worker-a is drained by ann since", "(kernel), and remains leader: no other candidate could take over", "next mandate candidates e")
	s.shows(0, "ls", "worker-a is drained by ann since")
	s.shows(0, "candidates e", "worker-a leading cordoned", "drained by ann since")
	s.shows(exitWarnings, "doctor e", "hands over as soon as another candidate can lead: it is drained (by ann")
	b, _ := campaign(t, url, "e", "worker-b")
	servertest.Eventually(t, time.Minute, "worker-b leads", b.IsLeader)
	servertest.Eventually(t, time.Minute, "the end is reported", func() bool { // a moment after the release
		records, err := b.Election().History(t.Context(), 2)
		return err == nil && len(records) == 2 && records[1].Reason != elector.ReasonVanished
	})
	s.shows(0, "history e", "worker-a", "handover", "drained by ann since", "kernel")
}

func TestCordonDrainsAMember(t *testing.T) {
	url := "redis://" + miniredis.RunT(t).Addr()
	s := shell{t, url}
	work := func(ctx context.Context, _ *shard.Term) error {
		<-ctx.Done()
		return nil
	}
	owned := func(id string) int {
		q, err := elector.Open(url)
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		st, _ := shard.Read(t.Context(), q, "invoices") // there may be no group yet
		for _, m := range st.Members {
			if m.ID == id {
				return len(m.Owned)
			}
		}
		return 0
	}
	joinGroup(t, url, "worker-a", work)
	joinGroup(t, url, "worker-b", work)
	servertest.Eventually(t, time.Minute, "each has half", func() bool { return owned("worker-a") == 3 && owned("worker-b") == 3 })
	s.shows(0, "drain worker-a --by ann", "worker-a is drained: it hands over what it leads")
	servertest.Eventually(t, time.Minute, "all have left", func() bool { return owned("worker-a") == 0 && owned("worker-b") == 6 })
	s.shows(0, "shards invoices", "wants no shards: drained by ann")
	s.shows(0, "cordon", "MEMBER DRAINED BY", "worker-a yes ann")
}

func TestCordonRefusesBadNames(t *testing.T) {
	s := shell{t, "redis://" + miniredis.RunT(t).Addr()}
	for _, args := range [][]string{{"cordon", "a b"}, {"cordon", ""}, {"uncordon"}, {"drain"}, {"drain", "a b"}, {"uncordon", "a", "b"}, {"cordon", strings.Repeat("x", 201)}, {"cordon", "a", "--by", "\x1b"}} {
		if _, errs := s.run(exitUsage, args...); errs == "" {
			t.Errorf("%q: no reason", args)
		}
	}
	s.url = "redis://127.0.0.1:1"
	for _, line := range []string{"cordon a", "uncordon a", "cordon"} {
		s.run(exitUnreachable, strings.Fields(line)...)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
)

// The jobs of an election, who ran them, and which is overdue; whatever others wrote beside them.
func TestTicks(t *testing.T) {
	m := miniredis.RunT(t)
	url := "redis://" + m.Addr()
	c, err := elector.NewClient(url)
	must(t, err)
	defer c.Close()
	q, err := elector.NewQuorum(c)
	must(t, err)
	defer q.Close()
	e, err := q.Election("reports")
	must(t, err)
	once, err := fence.NewOnce(c, e)
	must(t, err)
	set := func(job string, fields ...string) {
		for i := 0; i < len(fields); i += 2 {
			m.HSet("mandate:{reports}:tick:"+job, fields[i], fields[i+1])
		}
		_, _ = m.ZAdd("mandate:{reports}:jobs", 1e15, job)
	}
	mark := func(at time.Time, more ...string) []string { // of a tick that was taken
		ms := strconv.FormatInt(at.UnixMilli(), 10)
		return append([]string{"tick", ms, "next", strconv.FormatInt(at.Add(time.Hour).UnixMilli(), 10), "token", "7", "state", "taken", "what", ms, "began", ms, "ended", ms, "of", "7", "by", "worker-a", "outcome", "ok"}, more...)
	}
	ticks := func(code int, args ...string) (string, string) {
		t.Helper()
		got, o, e := run(t, url, append([]string{"ticks", "reports"}, args...)...)
		if got != code {
			t.Fatalf("%q: exit code %d, want %d: %s", args, got, code, e)
		}
		still(t, o+e)
		return o, e
	}
	if _, e := ticks(exitNoLeader); !strings.Contains(e, "no ticks of reports here") {
		t.Error(e)
	}
	at := time.Now().Add(-90 * time.Minute).Truncate(time.Second)
	set("mail", mark(at)...)
	set("bills", mark(at, "next", strconv.FormatInt(at.Add(24*time.Hour).UnixMilli(), 10), "what", "hand", "outcome", "panicked", "detail", "no such file")...)
	set("sweep", mark(at, "outcome", "", "ended", "0")...)
	set("new", "tick", "0", "next", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), "token", "7", "state", "first")
	o, _ := ticks(exitWarnings)
	for _, want := range []string{
		`mail .* ok 1h30m ago +worker-a +30m`, `bills .* by hand, panicked 1h30m ago +worker-a$`, `sweep .* running, begun 1h30m ago +worker-a +30m`, `new +none yet .* never$`,
		`problem +mail has been overdue for 30m`, `problem +the last run of bills, by worker-a, panicked: no such file`, `next +the log of worker-a has more`, `problem +sweep has been overdue for 30m.*; it has been running since `,
		`next +mandate status reports --redis \S+, and the leader's log of mail; if no program has this job any more: redis-cli -h 127.0.0.1 -p \d+ DEL 'mandate:{reports}:tick:mail'`,
	} {
		if !regexp.MustCompile("(?m)^" + want).MatchString(o) {
			t.Errorf("no line like %q in\n%s", want, o)
		}
	}
	var all []tickJSON
	o, _ = ticks(exitWarnings, "--json")
	if err := json.Unmarshal([]byte(o), &all); err != nil || len(all) != 4 || all[0].Overdue != 0 || all[1].Taken.Job != "mail" || all[1].Overdue < 1.7e6 || !all[1].Tick.Equal(at) ||
		all[0].Run.Outcome != fence.Panicked || all[0].Run.Error != "no such file" || all[2].Overdue != 0 || strings.Contains(o, "0001-01-01") {
		t.Errorf("%s, %v", o, err)
	}

	m.Del("mandate:{reports}:tick:mail")
	m.Del("mandate:{reports}:tick:bills")
	m.Del("mandate:{reports}:tick:sweep")
	ticks(0)

	// What is printed for a job that is blocked ends that.
	set("it's", mark(at.Add(1000*time.Hour))...)
	tick := fence.Tick{Job: "it's", At: time.Now(), Token: 7}
	if _, err := once.Take(t.Context(), tick); !errors.Is(err, fence.ErrRan) {
		t.Error(err)
	}
	if o, _ := ticks(exitWarnings); !regexp.MustCompile(`(?m)^it's .* in the future: blocked for 41d\d\dh$`).MatchString(o) {
		t.Error(o)
	}
	m.SetTime(at.Add(1000 * time.Hour)) // it is the clock of Redis that is wrong, and the mark may be right
	if o, _ := ticks(exitWarnings); strings.Contains(o, "blocked") {
		t.Error(o)
	}
	m.SetTime(time.Time{})
	o, _ = ticks(exitWarnings, "--json")
	if json.Unmarshal([]byte(o), &all) != nil || all[0].Blocked < 3.5e9 || all[0].Overdue != 0 || !strings.Contains(all[0].Problem, "it's is blocked for another 998h") {
		t.Error(o)
	}
	key, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+regexp.MustCompile(` DEL (.*)$`).FindStringSubmatch(all[0].Advice)[1]).Output()
	if err != nil || !m.Del(string(key)) {
		t.Errorf("%s is no key, %v", key, err)
	}
	if _, err := once.Take(t.Context(), tick); err != nil {
		t.Error(err)
	}
	m.Del(string(key))

	set("gap", mark(time.Now(), "gaps", fmt.Sprintf("%d %d %d 0a nobody led\x1b[2J\n", at.Add(-time.Minute).UnixMilli(), at.UnixMilli(), at.UnixMilli()))...)
	if o, _ := ticks(0); !regexp.MustCompile(`(?m)^gap: not run: the ticks from .* to .*: nobody led.\[2J$`).MatchString(o) {
		t.Error(o)
	}
	all = nil
	if o, _ := ticks(0, "--json"); json.Unmarshal([]byte(o), &all) != nil || len(all[0].Skipped) != 1 || !all[0].Skipped[0].Last.Equal(at) {
		t.Error(o)
	}
	m.Del("mandate:{reports}:tick:gap")

	set("\x1b[2J\xff", mark(at, "by", "\x1b]0;x\a\u202e", "detail", "\x1b[2J", "outcome", "failed")...)
	set("night\x1b[2J", "tick", "\xff\x00 backup")
	for _, args := range [][]string{nil, {"--json"}} {
		o, e := ticks(exitFailed, args...)
		if !strings.Contains(o, "new") || !strings.Contains(o, "[2J") || !strings.Contains(e, "night?[2J") || !strings.Contains(e, "no tick") {
			t.Errorf("%q: %s%s", args, o, e)
		}
	}
	m.Del("mandate:{reports}:jobs")
	_ = m.Set("mandate:{reports}:jobs", "x")
	if _, e := ticks(exitFailed); !strings.Contains(e, "holds another type than a sorted set") {
		t.Error(e)
	}
	m.Close()
	if o, e := ticks(exitUnreachable, "--json"); o != "[]\n" || !strings.Contains(e, "connection refused") {
		t.Errorf("%s%s", o, e)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
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
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	q, err := elector.NewQuorum(c)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	e, err := q.Election("reports")
	if err != nil {
		t.Fatal(err)
	}
	once, err := fence.NewOnce(c, e)
	if err != nil {
		t.Fatal(err)
	}
	set := func(job, mark string) {
		_ = m.Set("mandate:{reports}:tick:"+job, mark)
		_, _ = m.ZAdd("mandate:{reports}:jobs", 1e15, job)
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
	for job, every := range map[string]time.Duration{"mail": time.Hour, "bills": 24 * time.Hour} {
		if err := once.Take(t.Context(), fence.Tick{Job: job, At: at, Every: every, Within: 2 * time.Hour, Token: 7, By: "worker-a"}); err != nil {
			t.Fatal(err)
		}
	}
	o, _ := ticks(exitWarnings)
	for _, want := range []string{
		`mail .* worker-a +7 +1h00m +30m`, `bills .* worker-a +7 +24h00m$`, `problem +mail has been overdue for 30m`,
		`next +mandate status reports --redis \S+, and the leader's log of mail; if no program has this job any more: redis-cli DEL 'mandate:{reports}:tick:mail' on `,
	} {
		if !regexp.MustCompile("(?m)^" + want).MatchString(o) {
			t.Errorf("no line like %q in\n%s", want, o)
		}
	}
	var all []tickJSON
	o, _ = ticks(exitWarnings, "--json")
	if err := json.Unmarshal([]byte(o), &all); err != nil || len(all) != 2 || all[0].Overdue != 0 || all[1].Job != "mail" || all[1].Overdue < 1.7e6 || !all[1].Tick.Equal(at) {
		t.Errorf("%+v, %v", all, err)
	}

	m.Del("mandate:{reports}:tick:mail")
	ticks(0)

	// What is printed for a job that is blocked ends that.
	set("it's", fmt.Sprintf("%d 1000 7 %d 0a taken b", at.Add(1000*time.Hour).UnixMilli(), at.UnixMilli()))
	tick := fence.Tick{Job: "it's", At: time.Now(), Every: time.Minute, Token: 7}
	if err := once.Take(t.Context(), tick); !errors.Is(err, fence.ErrRan) {
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
	if json.Unmarshal([]byte(o), &all) != nil || all[1].Blocked < 3.5e9 || all[1].Overdue != 0 || !strings.Contains(all[1].Problem, "it's is blocked for another 998h") {
		t.Error(o)
	}
	key, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+regexp.MustCompile(`redis-cli DEL (.*) on `).FindStringSubmatch(all[1].Next)[1]).Output()
	if err != nil || !m.Del(string(key)) {
		t.Errorf("%s is no key, %v", key, err)
	}
	if err := once.Take(t.Context(), tick); err != nil {
		t.Error(err)
	}
	m.Del(string(key))

	set("gap", fmt.Sprintf("%[1]d 1000 9 %[1]d 0a first b\n%[2]d %[1]d %[1]d nobody led\x1b[2J\n", at.UnixMilli(), at.Add(-time.Minute).UnixMilli()))
	if o, _ := ticks(exitWarnings); !regexp.MustCompile(`(?m)^gap .* never `).MatchString(o) || !regexp.MustCompile(`(?m)^gap: not run: the ticks after that of .*, up to that of .*: nobody led.\[2J$`).MatchString(o) {
		t.Error(o)
	}
	all = nil
	if o, _ := ticks(exitWarnings, "--json"); json.Unmarshal([]byte(o), &all) != nil || !all[1].Never || len(all[1].Skipped) != 1 || !all[1].Skipped[0].Until.Equal(at) {
		t.Error(o)
	}
	m.Del("mandate:{reports}:tick:gap")

	set("\x1b[2J\xff", fmt.Sprintf("%d 1000 9 %d 0a taken \x1b]0;x\a\u202e", at.UnixMilli(), at.UnixMilli()))
	set("night\x1b[2J", "\xff\x00 backup")
	for _, args := range [][]string{nil, {"--json"}, {"--wide"}} {
		o, e := ticks(exitFailed, args...)
		if !strings.Contains(o, "bills") || !strings.Contains(o, "[2J") || !strings.Contains(e, "night?[2J") || !strings.Contains(e, "no tick") {
			t.Errorf("%q: %s%s", args, o, e)
		}
	}
	m.Del("mandate:{reports}:jobs")
	_ = m.Set("mandate:{reports}:jobs", "x")
	if _, e := ticks(exitFailed); !strings.Contains(e, "belongs to another program") {
		t.Error(e)
	}
	m.Close()
	if o, e := ticks(exitUnreachable, "--json"); o != "[]\n" || !strings.Contains(e, "connection refused") {
		t.Errorf("%s%s", o, e)
	}
}

package main

import (
	"encoding/json"
	"fmt"
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
	o, _ := ticks(0)
	for _, want := range []string{`mail .* worker-a +7 +1h00m +30m`, `bills .* worker-a +7 +24h00m$`} {
		if !regexp.MustCompile("(?m)^" + want).MatchString(o) {
			t.Errorf("no line like %q in\n%s", want, o)
		}
	}
	var all []tickJSON
	o, _ = ticks(0, "--json")
	if err := json.Unmarshal([]byte(o), &all); err != nil || len(all) != 2 || all[0].Overdue != 0 || all[1].Job != "mail" || all[1].Overdue < 1.7e6 || !all[1].Tick.Equal(at) {
		t.Errorf("%+v, %v", all, err)
	}

	set("typo", fmt.Sprintf("%d 1000 9 %d 0a taken b", at.Add(1000*time.Hour).UnixMilli(), at.UnixMilli()))
	if o, _ := ticks(0); !regexp.MustCompile(`(?m)^typo .* in the future: blocked for 41d\d\dh$`).MatchString(o) {
		t.Error(o)
	}
	m.Del("mandate:{reports}:tick:typo")

	set("gap", fmt.Sprintf("%[1]d 1000 9 %[1]d 0a first b\n%[2]d %[1]d %[1]d nobody led\x1b[2J\n", at.UnixMilli(), at.Add(-time.Minute).UnixMilli()))
	if o, _ := ticks(0); !regexp.MustCompile(`(?m)^gap .* never `).MatchString(o) || !regexp.MustCompile(`(?m)^gap: not run after .* until .*: nobody led.\[2J$`).MatchString(o) {
		t.Error(o)
	}
	if o, _ := ticks(0, "--json"); json.Unmarshal([]byte(o), &all) != nil || !all[1].Never || len(all[1].Skipped) != 1 || !all[1].Skipped[0].Until.Equal(at) {
		t.Error(o)
	}
	m.Del("mandate:{reports}:tick:gap")

	set("\x1b[2J\xff", fmt.Sprintf("%d 1000 9 %d 0a taken \x1b]0;x\a\u202e", at.UnixMilli(), at.UnixMilli()))
	set("night\x1b[2J", "\xff\x00 backup")
	for _, args := range [][]string{nil, {"--json"}, {"--wide"}} {
		o, e := ticks(exitFailed, args...)
		if !strings.Contains(o, "mail") || !strings.Contains(o, "[2J") || !strings.Contains(e, "night?[2J") || !strings.Contains(e, "no tick") {
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

package main

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// still checks that a text leaves the terminal alone.
func still(t *testing.T, text string) {
	t.Helper()
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) || !utf8.ValidString(text) {
		t.Errorf("it would move the cursor: %q", text)
	}
}

// FuzzStopTimes divides leases. What is accepted must suit the elector, with the
// grace that was requested, and leave SIGKILL a tenth of the lease, a second at most; what is refused must come with advice that works.
func FuzzStopTimes(f *testing.F) {
	for _, d := range [][2]time.Duration{
		{10 * time.Second, 2 * time.Second}, {10 * time.Second, 6 * time.Second}, {50 * time.Millisecond, 0}, {time.Second, 438 * time.Millisecond},
		{24 * time.Hour, 11 * time.Hour}, {51 * time.Millisecond, time.Nanosecond}, {time.Minute, 2562047 * time.Hour}, {24 * time.Hour, 12 * time.Hour},
	} {
		f.Add(int64(d[0]), int64(d[1]), true)
		f.Add(int64(d[0]), int64(d[1]), false)
	}
	q := electortest.Start(f).Quorum("a")
	advice := regexp.MustCompile(`use at most --grace (\S+?), or a longer lease$`)
	fits := func(lease, grace time.Duration, given bool) bool {
		a := &terminal{}
		g, kill := (&campaignFlags{lease: lease, grace: grace}).stopTimes(a, given)
		if len(a.problems) > 0 {
			return false
		}
		_, err := elector.New(q, elector.Config{Election: "e", Lease: lease, StopMargin: g + kill})
		return err == nil && kill > 0 && kill <= min(lease/10, time.Second) && g+kill < lease/2 && (!given || g == grace)
	}
	f.Fuzz(func(t *testing.T, l, g int64, given bool) {
		lease, grace := time.Duration(l).Truncate(time.Millisecond), time.Duration(g)
		if lease < 50*time.Millisecond || lease > 24*time.Hour || grace < 0 {
			return // refused by their own flags
		}
		a := &terminal{}
		(&campaignFlags{lease: lease, grace: grace}).stopTimes(a, given)
		if len(a.problems) == 0 {
			if !fits(lease, grace, given) {
				t.Errorf("a lease of %v has no room for a grace of %v", lease, grace)
			}
			return
		}
		suggested := advice.FindStringSubmatch(a.problems[0])
		if suggested == nil {
			t.Fatalf("no advice: %q", a.problems)
		}
		if longest, err := time.ParseDuration(suggested[1]); err != nil || !fits(lease, longest, true) {
			t.Errorf("bad advice: %q", a.problems)
		}
	})
}

// FuzzTerminal shows what the nodes, the leaders and the candidates publish: anyone who may
// write to Redis may have written it.
func FuzzTerminal(f *testing.F) {
	f.Add("a", "it hangs", int64(time.Second))
	f.Add("a", "nobody leads", int64(0))
	f.Add("\x1b[2J\x1b]0;x\a", "\u009b31m\r\n\u202ex", int64(-1))
	f.Add(strings.Repeat("\xff\x00", 300), strings.Repeat("w ", 300), int64(1<<63-1))
	q, err := elector.Open("redis://127.0.0.1:1")
	must(f, err)
	f.Cleanup(func() { _ = q.Close() })
	election, err := q.Election("e")
	must(f, err)
	f.Fuzz(func(t *testing.T, word, words string, n int64) {
		var out strings.Builder
		c := &connection{terminal: &terminal{stdout: &out}, prefix: "mandate", election: election}
		d, token := time.Duration(n), uint64(n)
		leader := elector.Leader{Candidate: word, Advertise: words, Token: token, LeaseLeft: d, Since: time.Unix(n%1e10, 0)}
		st := elector.Status{
			Election: word, Leader: &leader, Paused: true, Pause: words, PauseLeft: d,
			Nodes: []elector.NodeStatus{{Node: word, Error: words}, {Node: word, Reachable: true, Holder: words, Abstains: d}, {Node: word, Reachable: true, Holder: words}},
		}
		all := []elector.CandidateStatus{
			{ID: word, Role: words, Advertise: word, Host: words, Version: word, Detail: words, RunningFor: d}, {ID: words, Role: word, Healthy: true},
		}
		var shown []string
		for _, kind := range []string{elector.EventElected, elector.EventReleased, elector.EventVacant, elector.EventStopping, word} {
			ev := elector.Event{Kind: kind, Election: word, Candidate: word, Advertise: words, Reason: elector.Reason(word), Detail: words, Token: token}
			shown = append(shown, eventLine(ev))
		}
		records := []elector.TermRecord{{Token: token, Candidate: word, Reason: elector.Reason(words), Detail: words, Lasted: d}, {Current: true, Candidate: words}}
		past := history{Terms: records, Pauses: []elector.PauseRecord{{Election: word, By: words, Reason: word, EndedBy: words, For: d}}}
		var errs []error
		for _, wide := range []bool{false, true} {
			r := reportOf(st, all...)
			r.Terms = records
			errs = append(errs, printStatus(c.terminal, &r, wide, false), printElections(c, []report{r, reportOf(elector.Status{Election: words})}, false), printHistory(c.terminal, past, false, word, nil))
		}
		for _, err := range append(errs, printHandover(c, leader, leader, nil, false),
			printFindings(c.terminal, []doctor.Finding{{Node: word, Check: "c", Level: doctor.LevelFail, Found: words, Advice: words}}, true, false)) {
			if err != nil {
				t.Error(err)
			}
		}
		still(t, out.String())
		for _, line := range shown {
			still(t, line)
			if strings.Contains(line, "\n") {
				t.Errorf("two lines: %q", line)
			}
		}
	})
}

package main

import (
	"context"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// password stands in the URLs of the command lines here; no message may repeat it.
const password = "h7nter2"

// longestReading is far more than any command line takes: 80 ms were seen on a machine
// with ten times as many runnable threads as cores.
const longestReading = time.Minute

// reading is a command line that was read and found to be in order; what it
// requests is not done.
type reading struct {
	app  *app
	cmd  *cobra.Command
	args []string
}

// read is execute, but for what would be done: that is accepted instead.
func read(args []string, accept func(reading)) (code int, printed string) {
	// A command line that blocks (a file that is a pipe) names itself; it would else only
	// be missing from what the fuzzer has run.
	defer time.AfterFunc(longestReading, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("reading %q takes longer than %v", args, longestReading))
	}).Stop()
	var stdout, stderr strings.Builder
	a := &app{stdout: &stdout, stderr: &stderr}
	defer func() {
		a.close()
		*a = app{} // cobra never forgets a flag that can be completed, and with it us
	}()
	root := a.command()
	for _, cmd := range root.Commands() {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			accept(reading{a, cmd, args})
			return nil
		}
	}
	return a.perform(context.Background(), root, args), stderr.String()
}

// FuzzFlags reads command lines: arguments with a zero byte between them, and what
// MANDATE_REDIS holds.
func FuzzFlags(f *testing.F) {
	for _, line := range []string{
		"run --election e -- true", "run --election e --once --lease 1s --grace 300ms --restart-delay 0 --cooldown 2562047h sh -c true",
		"run --election e --probe-tcp h:1 --probe-http http://u:" + password + "@h:1/x --probe-file /f --probe-file-age 3s --probe-interval 500us sh",
		"run --election e --candidate-probe-http http://u:" + password + "@h:x --candidate-probe-exec true --probe-failures 9223372036854775807 sh",
		"run --election e --probe-exec true --probe-start-grace 1us --succession rotation --max-term 1h --priority -1 --id a --advertise b sh",
		"run --election e --probe-timeout 2562047h --probe-interval 2562047h --candidate-probe-tcp f sh", "run --election e ./nosuch", "run --lease 10h --grace 9h",
		"serve --election e --health-url http://h/x --http :0 --lease 50ms --grace 0 --succession priority --priority 3",
		"serve --election e --health-url http://u:" + password + "@[::1 --http-token-file main.go", "serve --http-token-file nosuch",
		"status e --wide", "candidates e --wide", "history e --json=false", "wait e --leader a --for 1s --timeout 5s", "status --json a b", "watch e --json", "history e -n 500", "history -n 0 e --json=x", "ls --json", "ls x",
		"candidates e", "resign e --reason r --timeout 5s", "pause e --by ann", "resign e --by \x1b", "resign redis://u:" + password + "@h", "transfer e --to b --json", "transfer e",
		"pause e --for 1h --reason why", "pause e --for 0.5s", "forget e -y --json", "resume e --json", "doctor", "doctor e --lease 3s", "doctor --lease 2562047h --json",
		"console", "console a b --host x --actions", "console --actions --token-file /dev/null --http h", "demo x", "version --json",
		"completion bash", "completion x", "help run", "help x", "--help", "", "bogus", "-x", "--", "-", "status -h", "ls --log-level debug --log-format json",
		"--redis redis://a --redis redis://u:" + password + "@b:1/x --redis redis+sentinel://c:1 ls", "--redis redis://a,redis://b ls", "--prefix {} ls",
		"redis://u:" + password + "@h", "status e --id=redis://u:" + password + "@h", "ls --redis= --prefix= --log-level=", "ls --\x1b[2J", "ls -\x9b",
		"run --election \x1b]0;x\a --id \u202e -- \x1b[31m", "pause e --reason " + strings.Repeat("r", 501), "status " + strings.Repeat("e", 300),
	} {
		f.Add(strings.ReplaceAll(line, " ", "\x00"), "")
	}
	f.Add("ls", "redis://a, redis://u:"+password+"@b:x/,redis://c")
	f.Add("ls", "redis://a,redis://b,unix:///s")
	f.Fuzz(func(t *testing.T, line, env string) {
		// A terminal and a pipe would be waited for; completion queries Redis.
		if strings.Contains(env, "\x00") || strings.Contains(line, "/dev") || strings.Contains(line, "/proc") || strings.Contains(line, "__complete") {
			return
		}
		t.Setenv("MANDATE_REDIS", env)
		args := strings.Split(line, "\x00")
		accepted := false
		code, printed := read(args, func(r reading) {
			accepted = true
			inOrder(t, r)
		})
		switch {
		case code == 0 && printed == "": // or it was the help
		case code == exitUsage, code == exitNotRunnable, code == exitNotFound:
			if accepted {
				t.Errorf("done in spite of %q", printed)
			}
			helps(t, append(args, strings.Split(env, ",")...), code, printed)
		default:
			t.Errorf("code %d: %q", code, printed)
		}
	})
}

// Names of the library: a user of the command knows only flags.
var inside = regexp.MustCompile(`\b(StopMargin|RenewEvery|ProbeSettings|StartGrace|Interval|Timeout|MaxAge|Failures|MaxTerm|RestartDelay|elector:|health:)`)

// helps checks what is printed about a command line that is not in order.
func helps(t *testing.T, args []string, code int, printed string) {
	t.Helper()
	typed := strings.Join(args, " ")
	if strings.Contains(printed, password) && !slices.ContainsFunc(args, bare) {
		t.Errorf("the password is printed: %q", printed)
	}
	still(t, printed)
	lines := strings.Split(strings.TrimSuffix(printed, "\n"), "\n")
	if len(lines) > 60 || slices.ContainsFunc(lines, func(l string) bool { return utf8.RuneCountInString(l) > 1100 }) {
		t.Errorf("%d lines, %d bytes: too much to read", len(lines), len(printed))
	}
	if name, why, ok := strings.Cut(lines[0], ": "); !ok || !strings.HasPrefix(name, "mandate") || strings.TrimSpace(why) == "" {
		t.Errorf("it prints nothing: %q", printed)
	}
	if code == exitUsage && !strings.HasPrefix(lines[len(lines)-1], "Try 'mandate") {
		t.Errorf("no hint at the help: %q", printed)
	}
	if name := inside.FindString(printed); name != "" && !strings.Contains(typed, name) {
		t.Errorf("%q is no name of a flag: %q", name, printed)
	}
}

// still checks that a text leaves the terminal alone.
func still(t *testing.T, text string) {
	t.Helper()
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) || !utf8.ValidString(text) {
		t.Errorf("it would move the cursor: %q", text)
	}
}

// bare reports whether the password stands where nobody could know it for one.
func bare(arg string) bool {
	from, to := strings.Index(arg, "://"), strings.LastIndex(arg, "@")
	if from >= 0 && from < to {
		arg = arg[:from] + arg[to:]
	}
	return strings.Contains(arg, password)
}

// inOrder checks a command line that was accepted: nothing else looks at it before
// it is carried out.
func inOrder(t *testing.T, r reading) {
	t.Helper()
	f := r.cmd.Flags()
	f.Visit(func(f *pflag.Flag) {
		if v, ok := f.Value.(durationFlag); ok && *v.d < v.min {
			t.Errorf("--%s is %v", f.Name, *v.d)
		}
	})
	name := r.cmd.Name()
	if name == "demo" || name == "version" {
		return
	}
	election := r.app.election
	if e := r.app.elector; e != nil { // a candidate
		election = e.Election()
		if lease := e.Lease(); lease < 50*time.Millisecond || lease > 24*time.Hour || lease%time.Millisecond != 0 {
			t.Errorf("a lease of %v", lease)
		}
	}
	if r.app.quorum.Size()%2 == 0 {
		t.Errorf("%d nodes", r.app.quorum.Size())
	}
	for _, word := range append([]string{election.Name(), r.app.prefix}, names(r)...) {
		if word == "" || len(word) > 200 || strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsGraphic(r) || strings.ContainsRune("{} ", r) }) {
			t.Errorf("%q would stand in a key", word)
		}
	}
	if n, err := f.GetInt("count"); err == nil && (n < 1 || n > 500) {
		t.Errorf("--count is %d", n)
	}
	if reason, err := f.GetString("reason"); err == nil && len(reason) > maxReason {
		t.Errorf("a reason of %d bytes", len(reason))
	}
	if to, err := f.GetString("to"); err == nil && to == "" {
		t.Error("a transfer without a target")
	}
	switch name {
	case "run":
		if len(r.args) == 0 || r.args[0] == "" {
			t.Errorf("it runs %q", r.args)
		}
		fallthrough
	case "serve":
		if given, _ := f.GetString("election"); given != election.Name() {
			t.Errorf("--election %q became %q", given, election.Name())
		}
	case "ls", "doctor", "console":
	default:
		if len(r.args) != 1 || r.args[0] != election.Name() {
			t.Errorf("%q became %q", r.args, election.Name())
		}
	}
}

// names are the elections that a command line of several names.
func names(r reading) []string {
	if r.cmd.Name() == "console" || r.cmd.Name() == "doctor" {
		return r.args
	}
	return nil
}

// FuzzStopTimes divides leases. What is accepted must suit the elector, with the
// grace that was requested; what is refused must come with advice that works.
func FuzzStopTimes(f *testing.F) {
	for _, d := range [][2]time.Duration{
		{10 * time.Second, 2 * time.Second}, {10 * time.Second, 6 * time.Second}, {50 * time.Millisecond, 0}, {time.Second, 438 * time.Millisecond},
		{24 * time.Hour, 11 * time.Hour}, {51 * time.Millisecond, time.Nanosecond}, {time.Minute, 2562047 * time.Hour}, {24 * time.Hour, 12 * time.Hour},
	} {
		f.Add(int64(d[0]), int64(d[1]), true)
		f.Add(int64(d[0]), int64(d[1]), false)
	}
	q := electortest.Start(f).Quorum("a")
	advice := regexp.MustCompile(`use at most --grace (\S+?)(?:, or --lease (\S+))?$`)
	fits := func(lease, grace time.Duration, given bool) bool {
		a := &app{}
		g, kill := a.stopTimes(&campaignFlags{lease: lease, grace: grace}, given)
		if len(a.problems) > 0 {
			return false
		}
		_, err := elector.New(q, elector.Config{Election: "e", Lease: lease, StopMargin: g + kill})
		return err == nil && kill > 0 && g+kill < lease/2 && (!given || g == grace)
	}
	f.Fuzz(func(t *testing.T, l, g int64, given bool) {
		lease, grace := time.Duration(l).Truncate(time.Millisecond), time.Duration(g)
		if lease < 50*time.Millisecond || lease > 24*time.Hour || grace < 0 {
			return // refused by their own flags
		}
		a := &app{}
		a.stopTimes(&campaignFlags{lease: lease, grace: grace}, given)
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
		if suggested[2] == "" { // no lease is long enough
			if fits(24*time.Hour, grace, true) {
				t.Errorf("it does not suggest a longer lease, which would do: %q", a.problems)
			}
			return
		}
		if enough, err := time.ParseDuration(suggested[2]); err != nil || enough > 24*time.Hour || !fits(enough, grace, true) {
			t.Errorf("bad advice: %q", a.problems)
		}
	})
}

// FuzzTerminal shows what the nodes, the leaders and the candidates publish: anyone who may
// write to Redis may have written it.
func FuzzTerminal(f *testing.F) {
	f.Add("a", "it hangs", int64(time.Second))
	f.Add("\x1b[2J\x1b]0;x\a", "\u009b31m\r\n\u202ex", int64(-1))
	f.Add(strings.Repeat("\xff\x00", 300), strings.Repeat("w ", 300), int64(1<<63-1))
	f.Fuzz(func(t *testing.T, word, words string, n int64) {
		var out strings.Builder
		a := &app{stdout: &out, prefix: "mandate"}
		d, token := time.Duration(n), uint64(n)
		leader := elector.Leader{Candidate: word, Advertise: words, Token: token, LeaseLeft: d, Since: time.Unix(n%1e10, 0)}
		st := elector.Status{
			Election: word, Leader: &leader, Paused: true, Pause: words, PauseLeft: d,
			Nodes: []elector.NodeStatus{{Node: word, Error: words}, {Node: word, Reachable: true, Holder: words, Abstains: d}, {Node: word, Reachable: true, Holder: words}},
		}
		all := []elector.CandidateStatus{
			{ID: word, Role: elector.Role(words), Advertise: word, Host: words, Version: word, Detail: words, RunningFor: d}, {ID: words, Role: elector.Role(word), Healthy: true},
		}
		var shown []string
		for _, kind := range []elector.EventKind{elector.EventElected, elector.EventReleased, elector.EventVacant, elector.EventSkipped, elector.EventStopping, elector.EventKind(word)} {
			ev := elector.Event{Kind: kind, Election: word, Candidate: word, Advertise: words, Reason: elector.Reason(word), Detail: words, Token: token, Count: int(n)}
			shown = append(shown, eventLine(ev, true))
		}
		records := []elector.TermRecord{{Token: token, Candidate: word, Reason: elector.Reason(words), Detail: words, Lasted: d, Gap: d}, {Current: true, Candidate: words}}
		past := elector.Timeline{
			Terms:        records,
			Pauses:       []elector.PauseRecord{{Election: word, By: words, Reason: word, EndedBy: words, For: d}},
			Vacancies:    []elector.Vacancy{{Election: words, After: records[0], MaxFor: d}},
			Availability: []elector.Availability{{Election: word, From: time.Unix(n%1e10, 0), Until: time.Unix(0, 0), MaxLeaderless: d, Leaderless: d / 2, Paused: d}},
		}
		var errs []error
		for _, f := range []format{{}, {wide: true}} {
			errs = append(errs, a.printStatus(&report{Status: st, roll: all, last: &records[0]}, f), a.printElections([]report{{Status: st, roll: all, last: &records[0]}, {Status: elector.Status{Election: words}}}, f), a.printCandidates(all, st.Nodes, f),
				a.printTimeline(past, historyFlags{format: f, all: f.wide, since: time.Unix(1, 0)}, word, nil))
		}
		for _, err := range append(errs, a.printHandover(elector.Handover{From: leader, To: leader, Gap: d}, false, nil, false),
			a.printFindings([]doctor.Finding{{Node: word, Check: "c", Level: doctor.LevelFail, Found: words, Advice: words}}, true, false)) {
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

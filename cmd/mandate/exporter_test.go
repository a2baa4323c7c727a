package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

var well = health.Func(func(context.Context) error { return nil })

// scrape is every sample by its name and, in braces, the election or node.
func scrape(t *testing.T, e http.Handler) (map[string]float64, string) {
	t.Helper()
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	all := map[string]float64{}
	for _, m := range regexp.MustCompile(`(?m)^mandate_(\w+)\{(?:\w+="(.*)",)?prefix="mandate"\} (\S+)$`).FindAllStringSubmatch(w.Body.String(), -1) {
		name := m[1]
		if m[2] != "" {
			name += "{" + m[2] + "}"
		}
		v, err := strconv.ParseFloat(m[3], 64)
		must(t, err)
		all[name] = v
	}
	return all, w.Body.String()
}

// lasts returns for how many seconds the exporter has found something of an election or, as GROUP#, of a group: "fail gone orders";
// -1: it does not.
func lasts(text, finding string) float64 {
	of := strings.Fields(finding + " ")
	election, group := append(of, "")[2], ""
	if name, is := strings.CutSuffix(election, "#"); is {
		election, group = "", name
	}
	m := regexp.MustCompile(fmt.Sprintf(`(?m)^mandate_finding_seconds\{check="%s",election="%s",group="%s",level="%s",prefix="mandate"\} (\S+)$`, of[1], election, group, of[0])).FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	v, _ := strconv.ParseFloat(m[1], 64)
	return v
}

// listedNow is an election with an event a moment ago.
func listedNow(election string) redis.Z {
	return redis.Z{Member: election, Score: float64(time.Now().UnixMilli())}
}

func TestExporter(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		a := runCandidate(t, r.Quorum("a"), elector.Config{Election: "orders", ID: "a"})
		r.Lead(a)
		runCandidate(t, r.Quorum("b"), elector.Config{Election: "orders", ID: "b"})
		rdb := r.Client("operator")
		rdb.ZAdd(t.Context(), "mandate:elections", listedNow(`ev"il\`), listedNow("old"), listedNow("ended"))
		for kind, ago := range map[string]time.Duration{"elected": 2 * time.Hour, "released": time.Hour} {
			rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "mandate:{ended}:history", Values: []string{"event", fmt.Sprintf(
				`{"v":1,"kind":%q,"election":"ended","candidate":"a","token":7,"reason":"shutdown","time":%q}`, kind, time.Now().Add(-ago).Format(time.RFC3339))}})
		}
		rdb.Set(t.Context(), "mandate:{ended}:fence", "7", 0)
		broken := health.Func(func(context.Context) error { return errors.New("HTTP 503") })
		runCandidate(t, r.Quorum("c"), elector.Config{Election: "new", ID: "c", Probe: broken}) // its first deploy: no key of it is in Redis
		e := newExporter(r.Quorum("exporter"))
		want := func(when string, values map[string]float64, absent ...string) {
			t.Helper()
			got, _ := scrape(t, e)
			for name, v := range values {
				if g, ok := got[name]; !ok || g != v {
					t.Errorf("%s: %s is %v (there: %v), want %v", when, name, g, ok, v)
				}
			}
			for _, name := range absent {
				if v, ok := got[name]; ok {
					t.Errorf("%s: %s is %v, and can't be known", when, name, v)
				}
			}
		}
		electortest.Advance(time.Second)
		want("led", map[string]float64{
			"exporter_list_complete": 1, "redis_node_up{redis.test:6379}": 1,
			"election_leader_known{orders}": 1, "election_paused{orders}": 0,
			"election_candidates{orders}": 2, "election_candidates_able{orders}": 2,
			"election_leader_known{old}": 0, "election_candidates{old}": 0,
			"election_leader_known{new}": 0, "election_candidates{new}": 1, "election_candidates_able{new}": 0,
			`election_leader_known{ev\"il\\}`: 0,
		})

		must(t, a.Election().Pause(t.Context(), 0, "x"))
		r.CutOff("a", "b")
		electortest.Advance(15 * time.Second) // more than the lease: then no candidate leads, and nobody answers
		scrape(t, e)
		electortest.Advance(25 * time.Second)
		want("all candidates are gone", map[string]float64{
			"election_leader_known{orders}": 0, "election_paused{orders}": 1, "election_candidates{orders}": 0, "election_candidates_able{orders}": 0,
		})
		_, text := scrape(t, e)
		// A pause since it began; a vacancy since its reported end, or since it was first missed: its leader vanished.
		for finding, about := range map[string]float64{"warn pause orders": 40, "fail gone ended": 3641, "fail able new": 41, "fail gone orders": -1, "warn trace old": 41, "fail majority ": -1} {
			if s := lasts(text, finding); s < about-3 || s > about+15 {
				t.Errorf("%s for %v s, want about %v", finding, s, about)
			}
		}
		must(t, testcluster.ElectionOf(r.Quorum("operator"), "orders").Resume(t.Context()))
		electortest.Advance(6 * time.Second)
		scrape(t, e)
		electortest.Advance(20 * time.Second)
		_, text = scrape(t, e)
		if s := lasts(text, "fail gone orders"); s < 20 || s > 30 {
			t.Errorf("its leader vanished, and it is missed for %v s", s)
		}

		r.CutOff("exporter")
		electortest.Advance(10 * time.Second)
		want("Redis does not answer", map[string]float64{"exporter_list_complete": 0, "redis_node_up{redis.test:6379}": 0},
			"election_leader_known{orders}", "election_candidates{orders}")
	})
}

// Regression: an election that could not be read was missing, and nothing showed that.
func TestElectionThatCannotBeReadIsMissed(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		r.Lead(runCandidate(t, r.Quorum("a"), elector.Config{Election: "orders", ID: "a"}))
		x := r.Client("x")
		x.Set(t.Context(), "mandate:{broken}:fence", "no number", 0)
		x.ZAdd(t.Context(), "mandate:elections", listedNow("broken"))
		e := newExporter(r.Quorum("exporter"))
		if got, text := scrape(t, e); got["exporter_list_complete"] != 0 || got["election_leader_known{orders}"] != 1 || strings.Contains(text, `leader_known{election="broken"`) {
			t.Errorf("%s", text)
		}
	})
}

// Many scrapes cost no more than one.
func TestScrapesShareAReading(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		e := newExporter(r.Quorum("exporter"))
		_, first := scrape(t, e)
		r.Client("x").ZAdd(t.Context(), "mandate:elections", listedNow("f"))
		if _, second := scrape(t, e); second != first {
			t.Error("the second scrape within 5 s has read again")
		}
		electortest.Advance(6 * time.Second)
		if _, third := scrape(t, e); !strings.Contains(third, `election="f"`) {
			t.Errorf("6 s later nothing has been read again:\n%s", third)
		}
	})
}

// A scrape is over before its time-out, which Prometheus sends, however many nodes hang: otherwise no alert on them
// could fire. Only the nodes that hang are reported as such.
func TestScrapeEndsBeforeItsTimeout(t *testing.T) {
	for _, hanging := range [][]int{{0}, {0, 1}, {0, 1, 2}} {
		for _, timeout := range []string{"", "5", "2.5"} {
			testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				c.Start("a").Elected(time.Minute)
				for i := range 12 {
					c.Client("x", i%3).ZAdd(t.Context(), "mandate:elections", listedNow(fmt.Sprintf("g%d#assigner", i)), listedNow(fmt.Sprintf("g%d#0", i)))
					c.Client("x", i%3).ZAdd(t.Context(), "mandate:elections", listedNow(fmt.Sprintf("e%d", i)))
				}
				e := newExporter(c.Quorum("exporter"))
				c.Hang(hanging...)
				r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
				r.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", timeout)
				w, began := httptest.NewRecorder(), time.Now()
				e.ServeHTTP(w, r)
				took, most := time.Since(began), 10*time.Second
				if s, err := strconv.ParseFloat(timeout, 64); err == nil {
					most = time.Duration(s * float64(time.Second))
				}
				if took >= most {
					t.Errorf("%d nodes hang: a scrape with the time-out %q took %v", len(hanging), timeout, took)
				}
				for i, n := range c.Nodes {
					up := fmt.Sprintf("mandate_redis_node_up{node=%q,prefix=\"mandate\"} %d\n", n.Addr, map[bool]int{false: 1, true: 0}[slices.Contains(hanging, i)])
					if !strings.Contains(w.Body.String(), up) {
						t.Errorf("%d nodes hang, time-out %q: not %q:\n%s", len(hanging), timeout, up, w.Body)
					}
				}
			})
		}
	}
}

// Who reads a thousand elections waits once for a node that hangs, and sees all of them; when the node answers, it counts again.
func TestHangingNodeIsWaitedForOnce(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		c.Start("a").Elected(time.Minute)
		for i := range 1000 {
			c.Client("x", 0).ZAdd(t.Context(), "mandate:elections", listedNow(fmt.Sprintf("e%d", i)))
		}
		q := c.Quorum("exporter")
		e := newExporter(q)
		c.Hang(2)
		for range 2 { // the second scrape needs no luck of the first one
			began := time.Now()
			got, text := scrape(t, e)
			if took := time.Since(began); took > 3*time.Second || strings.Count(text, "mandate_election_candidates{") != 1001 || got["election_leader_known{orders}"] != 1 {
				t.Errorf("it took %v, and %d elections were read", took, strings.Count(text, "mandate_election_candidates{"))
			}
			time.Sleep(freshFor)
		}
		if got, text := scrape(t, e); got["exporter_list_complete"] != 1 || lasts(text, "warn majority ") < 5 {
			t.Errorf("a minority is away, which hides nothing:\n%.3000s", text)
		}
		c.Nodes[2].Heal()
		time.Sleep(freshFor)
		if got, text := scrape(t, e); got["exporter_list_complete"] != 1 || strings.Contains(text, `check="majority"`) {
			t.Errorf("the node answers again:\n%.3000s", text)
		}
		// A scrape that can wait for less than the one that reads is served all the same.
		time.Sleep(freshFor)
		c.Hang(0, 1, 2)
		go scrape(t, e)
		synctest.Wait()
		hasty, began := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody), time.Now()
		hasty.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "1")
		w := httptest.NewRecorder()
		if e.ServeHTTP(w, hasty); time.Since(began) >= time.Second || !strings.Contains(w.Body.String(), "mandate_redis_node_up") {
			t.Errorf("after %v: %.200s", time.Since(began), w.Body)
		}
		time.Sleep(scrapeTimeout)
	})
}

// What is well again is forgotten, also while a node is away: the next time is not counted from the first one.
func TestFindingIsCountedAnew(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		c.Start("a").Elected(time.Minute)
		var ill atomic.Bool
		probe := health.Func(func(context.Context) error {
			if ill.Load() {
				return errors.New("no disk")
			}
			return nil
		})
		c.Start("b", func(cfg *elector.Config) { cfg.Probe = probe })
		time.Sleep(time.Minute)
		e := newExporter(c.Quorum("exporter"))
		c.Hang(2)
		for _, is := range []bool{true, true, false, true} {
			ill.Store(is)
			time.Sleep(15 * time.Second)
			_, text := scrape(t, e)
			if s := lasts(text, "warn able orders"); (s >= 0) != is || s > 20 {
				t.Errorf("b is ill: %v, and that was found for %v s", is, s)
			}
		}
	})
}

// A group has series for itself and for its members, and none for single shards.
func TestExporterShowsGroups(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		r.Lead(runCandidate(t, r.Quorum("x"), elector.Config{Election: "orders", ID: "x"}))
		runMember(t, r.Quorum("a"), shard.Config{Group: "invoices", Shards: 40, ID: "a"}, nil)
		runMember(t, r.Quorum("b"), shard.Config{Group: "invoices", Shards: 40, ID: "b"}, nil)
		electortest.Advance(15 * time.Second)
		e := newExporter(r.Quorum("exporter"))
		got, text := scrape(t, e)
		for name, want := range map[string]float64{
			"group_shards{invoices}": 40, "group_shards_unowned{invoices}": 0, "group_shards_moving{invoices}": 0,
			"group_members{invoices}": 2, "group_members_open{invoices}": 2, "group_assigner_known{invoices}": 1, "election_leader_known{orders}": 1,
		} {
			if g, there := got[name]; !there || g != want {
				t.Errorf("%s is %v (there: %v), want %v", name, g, there, want)
			}
		}
		if !strings.Contains(text, `mandate_group_member_owned{group="invoices",member="b",prefix="mandate"} 20`) || strings.Contains(text, "invoices/") {
			t.Errorf("the members, or a series for each shard:\n%s", text)
		}

		r.CutOff("b")
		electortest.Advance(6 * time.Second)
		scrape(t, e)
		electortest.Advance(5 * time.Second)
		if got, text = scrape(t, e); got["group_members{invoices}"] != 1 {
			t.Errorf("after b's death:\n%s", text)
		}
		electortest.Advance(20 * time.Second)
		if got, text = scrape(t, e); got["group_shards_unowned{invoices}"] != 0 || lasts(text, "fail shards invoices#") != -1 {
			t.Errorf("b's shards have no owner:\n%s", text)
		}
		r.CutOff("a")
		electortest.Advance(time.Minute)
		scrape(t, e)
		electortest.Advance(time.Minute)
		got, text = scrape(t, e)
		if s := lasts(text, "fail gone invoices#"); s < 60 || s > 130 || got["group_shards_unowned{invoices}"] != 40 || got["group_members{invoices}"] != 0 || got["group_assigner_known{invoices}"] != 0 {
			t.Errorf("without members:\n%s", text)
		}
		r.CutOff("exporter")
		electortest.Advance(10 * time.Second)
		if got, text = scrape(t, e); strings.Contains(text, `group="invoices"`) {
			t.Errorf("what can't be known is there: %v", got)
		}
	})
}

// takeTick takes a tick of the election of a candidate.
func takeTick(t *testing.T, r *electortest.Redis, e *elector.Elector, tick fence.Tick) {
	t.Helper()
	once, err := fence.NewOnce(r.Client("worker"), e.Election())
	must(t, err)
	once.Logger, tick.Token = slog.New(slog.DiscardHandler), 7
	must(t, once.Do(t.Context(), tick, func(context.Context) error { return nil }))
}

// setMark writes the mark of a job, as of a tick that was taken at that time.
func setMark(set func(key string, fields ...any) *redis.IntCmd, job string, at time.Time) {
	ms := at.UnixMilli()
	set("mandate:{reports}:tick:"+job, "tick", ms, "next", ms+60000, "token", 1, "state", "taken", "what", ms, "began", ms, "ended", ms, "of", 1, "by", "a", "outcome", "ok")
}

// jobSeries is the sample of a series of a job of the election reports, such as "overdue mail seconds"; -Inf: there is none.
func jobSeries(text, series string) float64 {
	name := strings.Fields(series)
	m := regexp.MustCompile(`(?m)^mandate_tick_` + name[0] + `_` + name[2] + `\{election="reports",(?:last_run="\w+",)?prefix="mandate",scheduled_job="` + name[1] + `"\} (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		return math.Inf(-1)
	}
	v, _ := strconv.ParseFloat(m[1], 64)
	return v
}

// Each job has series while its mark can be read: overdue by the clock of Redis, blocked, skipped. Those who are called learn
// of it from status, doctor and ls, too, which name the command that shows more.
func TestOverdueTicksAreSeen(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		a := runCandidate(t, r.Quorum("a"), elector.Config{Election: "reports", ID: "a"})
		r.Lead(a)
		runCandidate(t, r.Quorum("b"), elector.Config{Election: "orders", ID: "b"})
		e := newExporter(r.Quorum("exporter"))
		now := time.Now()
		for _, job := range []string{"mail", "hourly"} {
			every := map[string]time.Duration{"mail": time.Minute, "hourly": time.Hour}[job]
			takeTick(t, r, a, fence.Tick{Job: job, At: now, Next: now.Add(every)})
		}
		ahead := now.Add(48 * time.Hour)
		x := r.Client("x")
		setMark(func(key string, fields ...any) *redis.IntCmd { return x.HSet(t.Context(), key, fields...) }, "sweep", ahead)
		x.ZAdd(t.Context(), "mandate:{reports}:jobs", redis.Z{Score: float64(ahead.UnixMilli()), Member: "sweep"})
		first := func() (doctor.Finding, string) {
			row := report{Report: doctor.Report{Look: elector.Look{Status: elector.Status{Election: "reports"}}}}
			row.read(t.Context(), r.Quorum("operator"), doctor.RecentTerms)
			var all strings.Builder
			for _, f := range row.problems() {
				fmt.Fprintf(&all, "%s: %s\n", f.Check, f.Found)
			}
			return append(row.problems(), doctor.Finding{})[0], all.String()
		}
		electortest.Advance(time.Minute + 30*time.Second)
		_, text := scrape(t, e)
		for series, want := range map[string]float64{
			"overdue mail": 30, "overdue hourly": 0, "overdue sweep": 0,
		} {
			if g := jobSeries(text, series+" seconds"); math.Abs(g-want) > 1 {
				t.Errorf("%s is %v, want %v", series, g, want)
			}
		}
		if f, all := first(); f.Check != "ticks" || strings.Contains(all, "mail has") || f.Advice != "mandate ticks reports" || !strings.Contains(f.Found, "sweep is blocked for another 47h58m") {
			t.Errorf("%+v\n%s", f, all)
		}
		if lasts(text, "note skipped reports") != -1 || lasts(text, "warn ticks reports") == -1 || strings.Contains(text, `election="orders",prefix="mandate",scheduled`) {
			t.Error(text)
		}
		// Ticks were skipped, and the job is overdue for longer than a failover takes.
		found := time.Now()
		takeTick(t, r, a, fence.Tick{Job: "mail", At: found, Next: found.Add(time.Minute), Prev: found.Add(-10 * time.Second), Why: "nobody led"})
		electortest.Advance(3 * time.Minute)
		_, text = scrape(t, e)
		if s := lasts(text, "note skipped reports"); math.Abs(s-time.Since(found).Seconds()) > 5 {
			t.Errorf("found %v s ago, want %v", s, time.Since(found))
		}
		if _, all := first(); !strings.Contains(all, "mail has been overdue for 2m") || strings.Contains(all, "skipped") {
			t.Error(all)
		}
		examine := func() string {
			findings, err := doctor.Examine(t.Context(), r.Quorum("operator"), doctor.Config{Election: "reports"})
			return fmt.Sprint(findings, err)
		}
		if text := examine(); !strings.Contains(text, "mail has been overdue for 2m") || !strings.Contains(text, "sweep is blocked") ||
			!strings.Contains(text, "skipped note ticks were not run, as was found in the last hour: mail (nobody led)") {
			t.Error(text)
		}
		electortest.Advance(time.Hour)
		if text := examine(); strings.Contains(text, "skipped") || !strings.Contains(text, "ticks") {
			t.Error(text)
		}
		// A mark that no Once has written lets no tick of that job run, and its series are missing.
		x.Set(t.Context(), "mandate:{reports}:tick:sweep", "backup", 0)
		if got, text := scrape(t, e); got["exporter_list_complete"] != 0 || strings.Contains(text, "sweep") || !strings.Contains(text, "mail") {
			t.Error(text)
		}
		if _, all := first(); !strings.Contains(all, "another type than a hash") {
			t.Error(all)
		}
	})
}

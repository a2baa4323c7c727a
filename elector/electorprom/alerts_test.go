package electorprom_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

const alertsFile = "../../docs/alerts.yml"

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

// Prometheus' own promtool reads the rules, and plays incidents against them.
func TestAlertsByPromtool(t *testing.T) {
	servertest.NeedProgram(t, "apt-get install prometheus", "promtool")
	files, err := filepath.Glob("testdata/alerts_*test.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no incidents: %v", err)
	}
	promtool(t, "check", "rules", alertsFile)
	promtool(t, append([]string{"test", "rules"}, files...)...)
}

// steps are the scrapes of one test; a fault begins at the scrape begins.
const (
	steps  = 110
	begins = 20
)

// slow is the time between scrapes, where an alert takes hours. Otherwise it is 15 s.
const slow = 4 * time.Minute

// fleet is what a healthy fleet shows: "HOST NAME{LABELS}" to the value at a scrape. On the host a runs the
// leader, on b a follower, on e the exporter.
type fleet map[string]func(i int) float64

func is(v float64) func(int) float64 { return func(int) float64 { return v } }

func per(v float64) func(int) float64 { return func(i int) float64 { return v * float64(i) } }

// from is v as long as the fault is not there, and w from then on, counted from there.
func from(v float64, w func(int) float64) func(int) float64 {
	return func(i int) float64 {
		if i < begins {
			return v
		}
		return w(i - begins)
	}
}

func healthy() fleet {
	f := fleet{}
	for _, host := range []string{"a", "b"} {
		leads, token := 0.0, 0.0
		if host == "a" {
			leads, token = 1, 41
		}
		f[host+" is_leader{}"], f[host+" token{}"] = is(leads), is(token)
		for _, reason := range []string{"shutdown", "handover", "expired"} {
			f[host+" step_downs_total{reason="+reason+"}"] = is(0)
		}
		for name, v := range map[string]float64{"leader_known": 1, "able": 1, "paused": 0, "overruns_total": 0, "leader_changes_total": 1} {
			f[host+" "+name] = is(v)
		}
	}
	for name, v := range map[string]float64{
		"exporter_list_complete": 1, "election_leader_known": 1, "election_paused": 0, "election_candidates": 2, "election_candidates_able": 2,
	} {
		f["e "+name] = is(v)
	}
	return f
}

// fault is what differs once the alert is true.
type fault struct {
	shows fleet
	never string        // hosts that have never been there
	event bool          // one scrape that shows it is enough
	every time.Duration // between scrapes, of alerts that take hours
}

// nothing is the value of a series that is not there.
const nothing = -1

// found is what the exporter has found: nothing, and from the fault on something that lasts.
func found(check, level string) fleet {
	return fleet{"e finding_seconds{check=" + check + ",level=" + level + "}": from(nothing, func(i int) float64 { return 15 * float64(i) })}
}

var faults = map[string]fault{
	"MandateNoLeader": {shows: fleet{
		"a is_leader{}": from(1, is(0)), "a token{}": from(41, is(0)), "a leader_known": from(1, is(0)), "b leader_known": from(1, is(0)), "e election_leader_known": from(1, is(0)),
		"e finding_seconds{check=leader,level=fail}": from(nothing, per(15)),
	}},
	"MandateTwoLeaders":      {shows: fleet{"b is_leader{}": from(0, is(1)), "b token{}": from(0, is(42))}},
	"MandateOverrun":         {shows: fleet{"a overruns_total": from(0, is(1))}, event: true},
	"MandateFlapping":        {shows: fleet{"a leader_changes_total": from(1, is(9))}, event: true},
	"MandateLeaseLost":       {shows: fleet{"a step_downs_total{reason=expired}": from(0, is(1))}, event: true},
	"MandateCandidateUnable": {shows: fleet{"b able": from(1, is(0))}},
	"MandateFailing":         {shows: found("able", "fail"), never: "ab"},
	"MandateWarning":         {shows: found("unreached", "warn")},
	"MandateNoStandby": {
		shows: fleet{"e election_candidates_able": func(i int) float64 { return float64(2 - max(0, i-98)/(max(1, i-98))) }},
		every: slow,
	},
	"MandateExporterBlind": {shows: fleet{"e exporter_list_complete": from(1, is(0))}},
}

// incidents are several fleets under one Prometheus: what it scrapes, and which alerts fire, as promtool reads them.
type incidents struct{ series, fire []map[string]any }

var aLabel = regexp.MustCompile(`(\w+)=([^,{}]+)`)

// add adds a fleet with external labels. lost are the scrapes that never arrive.
func (in *incidents) add(f *fault, external string, lost func(host string, i int) bool) {
	all := healthy()
	maps.Copy(all, f.shows)
	for key, value := range all {
		host, series, _ := strings.Cut(key, " ")
		if strings.Contains(f.never, host) {
			continue
		}
		name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		more := map[bool]string{true: `,job="exporter"`, false: `,job="worker"`}[host == "e"]
		if !strings.HasPrefix(name, "exporter_") {
			more += `,election="orders"`
		}
		if labels != "" {
			more += "," + aLabel.ReplaceAllString(labels, `$1="$2"`)
		}
		var values []string
		for i := range steps {
			if lost(host, i) || value(i) == nothing {
				values = append(values, "_")
			} else {
				values = append(values, strconv.FormatFloat(value(i), 'f', -1, 64))
			}
		}
		key := fmt.Sprintf(`mandate_%s{prefix="p",instance=%q,%s%s}`, name, host, external, more)
		in.series = append(in.series, map[string]any{"series": key, "values": strings.Join(values, " ")})
	}
}

// Each alert fires where it is true, and no other one does: under one Prometheus, where two clusters share one,
// where it restarts, and where a machine dies with its agent. Each fault is in a namespace of its own.
func TestAlertsAreTrueInEachTopology(t *testing.T) {
	servertest.NeedProgram(t, "apt-get install prometheus", "promtool")
	text, err := os.ReadFile(alertsFile)
	must(t, err)
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(text), -1) {
		if _, ok := faults[m[1]]; !ok {
			t.Errorf("%s is played in no topology", m[1])
		}
	}
	for _, every := range []time.Duration{15 * time.Second, slow} {
		playFaults(t, every)
	}
}

func playFaults(t *testing.T, every time.Duration) {
	t.Helper()
	var tests []map[string]any
	// play shows each fault to Prometheus; show returns which alerts fire, in a namespace of their own.
	play := func(name string, show func(in *incidents, alert string, f *fault, namespace string) (fire []string)) {
		in := &incidents{}
		for _, alert := range slices.Sorted(maps.Keys(faults)) {
			f := faults[alert]
			if cmp.Or(f.every, 15*time.Second) != every {
				continue
			}
			for _, a := range show(in, alert, &f, `namespace="`+alert+`"`) {
				name, cluster, _ := strings.Cut(a, ",")
				in.fire = append(in.fire, map[string]any{"labels": fmt.Sprintf(`{alertname=%q,namespace=%q,%s}`, name, alert, cluster), "value": 1})
			}
		}
		end := (steps * every).String()
		expr := `group by (alertname, namespace, cluster) (count_over_time(ALERTS{alertstate="firing"}[` + end + `]))`
		tests = append(tests, map[string]any{
			"name": name, "interval": every.String(), "input_series": in.series,
			"promql_expr_test": []any{map[string]any{"expr": expr, "eval_time": end, "exp_samples": in.fire}},
		})
	}
	never := func(string, int) bool { return false }
	play("one Prometheus", func(in *incidents, alert string, f *fault, namespace string) []string {
		in.add(f, namespace, never)
		return []string{alert}
	})
	play("two clusters", func(in *incidents, alert string, f *fault, namespace string) []string {
		in.add(&fault{}, namespace+`,cluster="well"`, never)
		in.add(f, namespace+`,cluster="ill"`, never)
		return []string{alert + `,cluster="ill"`}
	})
	for _, away := range []time.Duration{3 * time.Minute, 6 * time.Minute} { // the latter: longer than Prometheus looks back
		play(fmt.Sprintf("Prometheus restarts, and is away for %v", away), func(in *incidents, alert string, f *fault, namespace string) []string {
			in.add(f, namespace, func(_ string, i int) bool { return i > begins+2 && time.Duration(i-begins-2)*every < away })
			return []string{alert}
		})
	}
	// The last scrape of a host shows the fault, which is gone with the host: what is left is well.
	play("a host dies with its agent", func(in *incidents, alert string, f *fault, namespace string) (fire []string) {
		host, left := slices.Sorted(maps.Keys(f.shows))[0][:1], fleet{}
		for key, value := range f.shows {
			if key[:1] == host {
				left[key] = value
			}
		}
		if host == "a" {
			left["b is_leader{}"], left["b token{}"] = from(0, is(1)), from(0, is(42))
		}
		in.add(&fault{shows: left, never: f.never}, namespace, func(h string, i int) bool { return h == host && i > begins })
		if f.event {
			fire = append(fire, alert)
		}
		if host == "e" {
			fire = append(fire, "MandateExporterBlind") // nobody reads Redis now
		}
		return fire
	})
	rules, err := filepath.Abs(alertsFile)
	must(t, err)
	doc, err := json.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": every.String(), "tests": tests})
	must(t, err)
	file := filepath.Join(t.TempDir(), "topologies.yml")
	must(t, os.WriteFile(file, doc, 0o600))
	promtool(t, "test", "rules", file)
}

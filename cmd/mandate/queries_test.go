package main

import (
	"cmp"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorprom"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/shard"
)

// scraped are the metrics of a leader with both probes, of a follower and of the exporter, with their labels, as
// Prometheus keeps them.
func scraped(t *testing.T) map[string]map[string]bool {
	t.Helper()
	var texts []string
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		get := func(h http.Handler) {
			texts = append(texts, serve(h, http.MethodGet, "/metrics", "", "").Body.String())
		}
		e := runCandidate(t, r.Quorum("a"), elector.Config{Election: "orders", ID: "a", Probe: well, WorkProbe: well})
		r.Lead(e)
		c := electorprom.New(e)
		runUntilEnd(t, c.Run)
		electortest.Advance(10 * time.Second)
		get(c.Handler())
		get(electorprom.New(runCandidate(t, r.Quorum("b"), elector.Config{Election: "orders", ID: "b"})).Handler())
		runMember(t, r.Quorum("m"), shard.Config{Group: "invoices", Shards: 4, ID: "m"}, nil)
		electortest.Advance(10 * time.Second)
		for _, ago := range []time.Duration{3 * time.Minute, 0} { // and two in between are skipped
			at := time.Now().Add(-ago)
			takeTick(t, r, e, fence.Tick{Job: "mail", At: at, Prev: at.Add(-time.Minute), Next: at.Add(time.Minute)})
		}
		get(newExporter(r.Quorum("exporter")))
	})
	all := map[string]map[string]bool{}
	const target = `cluster="",namespace="",job="",instance=""`
	for _, text := range texts {
		for line := range strings.Lines(text) {
			m := regexp.MustCompile(`^(mandate_\w+)\{(.*)\} \S+\n$`).FindStringSubmatch(line)
			if m == nil {
				continue
			}
			if all[m[1]] == nil {
				all[m[1]] = map[string]bool{}
			}
			for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(target+","+m[2], -1) {
				all[m[1]][l[1]] = true
			}
		}
	}
	if len(all) < 25 {
		t.Fatalf("only %d metrics: %v", len(all), slices.Sorted(maps.Keys(all)))
	}
	return all
}

// queries are those of a document: of the dashboard with its variables replaced.
func queries(t *testing.T, file string) []query {
	t.Helper()
	var doc struct {
		Panels []struct {
			Title   string
			Targets []struct {
				Expr   string
				Legend string `yaml:"legendFormat"`
			}
		}
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	must(t, yaml.Unmarshal([]byte(textOf(t, file)), &doc)) // which reads JSON, too
	var all []query
	variables := strings.NewReplacer("$election", ".+", "$__rate_interval", "1m", "$__range_s", "600", "$__range", "10m")
	for _, p := range doc.Panels {
		for _, target := range p.Targets {
			all = append(all, query{p.Title, variables.Replace(target.Expr), target.Legend})
		}
	}
	for _, g := range doc.Groups {
		for _, r := range g.Rules {
			all = append(all, query{r.Alert, r.Expr, strings.Join(slices.Sorted(maps.Values(r.Annotations)), " ")})
		}
	}
	if len(all) < 10 {
		t.Fatalf("%s: only %d queries", file, len(all))
	}
	return all
}

type query struct {
	title, expr string
	text        string // with labels in it, as {{label}} or {{ $labels.label }}
}

// row is what the runbook has of an alert: the first command that its text names, and the heading to which its link leads.
func (q query) row() string {
	command := regexp.MustCompile("`mandate ([^`]+)`").FindString(q.text)
	command = regexp.MustCompile(`\{\{ \$labels\.(\w)\w* \}\}`).ReplaceAllString(command, "$1")
	_, anchor, _ := strings.Cut(q.text, "runbook.md#")
	anchor, _, _ = strings.Cut(anchor, " ")
	return cmp.Or(command, "any") + " #" + anchor
}

// The runbook begins with a row for each alert, and with no other.
func TestRunbookNamesEachAlert(t *testing.T) {
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| (Mandate[\\w, ]+) \\| (`mandate [^`]+`) \\| \\[[^\\]]+\\]\\((#[a-z0-9-]+)\\) \\|$").FindAllStringSubmatch(textOf(t, "docs/runbook.md"), -1) {
		for alert := range strings.SplitSeq(m[1], ", ") {
			rows[alert] = m[2] + " " + m[3]
		}
	}
	for _, q := range queries(t, "docs/alerts.yml") {
		want, is := q.row(), rows[q.title]
		if _, section, _ := strings.Cut(want, " #"); want != is && want != "any #"+section || !strings.HasSuffix(is, " #"+section) {
			t.Errorf("%s: the row of the runbook is %q, its own text %q", q.title, is, want)
		}
		delete(rows, q.title)
	}
	for alert := range rows {
		t.Errorf("%s is in the runbook, and no alert", alert)
	}
}

// The runbook has a row for each state of a node or a candidate that status prints.
func TestRunbookNamesEachState(t *testing.T) {
	states := slices.AppendSeq([]string{"full"}, maps.Values(nodeStates))
	for _, n := range []elector.NodeStatus{{}, {Answered: true}, {Answered: true, Denied: true}, {Answered: true, Reachable: true}} {
		states = append(states, nodeState(n))
	}
	for _, c := range []elector.CandidateStatus{{Unable: true}, {}, {Healthy: true, RestFor: 1}, {Healthy: true}} {
		_, health := candidateHealth(c)
		states = append(states, health)
	}
	text := textOf(t, "docs/runbook.md")
	for _, state := range states {
		if state != "ok" && !regexp.MustCompile("(?m)^\\| [^|]*`"+state+"`").MatchString(text) {
			t.Errorf("status prints %s, of which the runbook has no row", state)
		}
	}
}

// shows are the labels that stand in the text.
func (q query) shows() []string {
	var all []string
	for _, m := range regexp.MustCompile(`\{\{ *(?:\$labels\.)?(\w+) *\}\}`).FindAllStringSubmatch(q.text, -1) {
		if m[1] != "else" && m[1] != "end" {
			all = append(all, m[1])
		}
	}
	return all
}

var (
	aName  = regexp.MustCompile(`\bmandate_\w+`)
	labels = regexp.MustCompile(`(?:\b(?:by|on) \(([^)]*)\))|(\w+) *(?:=|!=|=~|!~)"`)
)

// The alerts and the dashboard query metrics and labels that are there, and leave none out.
func TestQueriesNameWhatIsExported(t *testing.T) {
	exported := scraped(t)
	used := map[string]bool{}
	for _, file := range []string{"docs/alerts.yml", "docs/grafana.json"} {
		for _, q := range queries(t, file) {
			there := map[string]bool{"__name__": true, "alertname": strings.Contains(q.expr, "ALERTS{")}
			for _, name := range aName.FindAllString(q.expr, -1) {
				used[strings.TrimSuffix(name, "_bucket")] = true
				if m := exported[name]; m == nil {
					t.Errorf("%s: %s: %s is not exported", file, q.title, name)
				} else {
					maps.Copy(there, m)
				}
			}
			named := q.shows()
			for _, m := range labels.FindAllStringSubmatch(q.expr, -1) {
				named = append(named, strings.FieldsFunc(m[1]+m[2], func(r rune) bool { return r == ',' || r == ' ' })...)
			}
			for _, l := range named {
				if !there[l] {
					t.Errorf("%s: %s: nothing in %s has a label %s", file, q.title, q.expr, l)
				}
			}
		}
	}
	for name := range exported {
		if base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, ""); !used[base] {
			t.Errorf("%s stands neither in the alerts nor on the dashboard", name)
		}
	}
}

package electorprom_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/mandate-dev/mandate/internal/servertest"
)

const alertsFile = "../../docs/alerts.yml"

// cases are the incidents of one file, evaluated at one interval.
type cases struct {
	RuleFiles []string   `yaml:"rule_files"`
	Interval  string     `yaml:"evaluation_interval"`
	Tests     []incident `yaml:"tests"`
}

// rule is one alert of alertsFile.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// incident is one test: series, and what must fire when.
type incident struct {
	Name     string        `yaml:"name"`
	Interval string        `yaml:"interval"`
	Series   []yaml.Node   `yaml:"input_series"`
	Cases    []expectation `yaml:"alert_rule_test"`
}

type expectation struct {
	At     string      `yaml:"eval_time"`
	Alert  string      `yaml:"alertname"`
	Alerts []yaml.Node `yaml:"exp_alerts,omitempty"`
}

func readYAML[T any](t *testing.T, file string) (into T) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return into
}

func alertRules(t *testing.T) []rule {
	t.Helper()
	var all []rule
	for _, g := range readYAML[struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}](t, alertsFile).Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func caseFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/alerts_*test.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	return files
}

// Prometheus' own promtool reads the rules, and plays incidents against them.
func TestAlertsByPromtool(t *testing.T) {
	servertest.NeedProgram(t, "apt-get install prometheus", "promtool")
	for _, args := range [][]string{{"check", "rules", alertsFile}, append([]string{"test", "rules"}, caseFiles(t)...)} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// Every rule has a case in which it fires and one in which it does not, and each part of it
// is needed: a rule with another threshold, comparison, range, grouping or "for", or without
// one of its conditions, fails a case.
func TestEveryPartOfAnAlertIsTested(t *testing.T) {
	servertest.NeedProgram(t, "apt-get install prometheus", "promtool")
	var all []cases
	for _, file := range caseFiles(t) {
		all = append(all, readYAML[cases](t, file))
	}
	var wg sync.WaitGroup
	atATime := make(chan struct{}, runtime.GOMAXPROCS(0))
	changes := 0
	for _, r := range alertRules(t) {
		if fires, silent := expectations(all, r.Alert); fires == 0 || silent == 0 {
			t.Errorf("%s fires in %d cases and is silent in %d: it needs both", r.Alert, fires, silent)
			continue
		}
		mutants := mutationsOf(r)
		changes += len(mutants)
		mutants[""] = r
		atATime <- struct{}{}
		wg.Go(func() {
			for change, noticed := range play(t, mutants, all) {
				if expected := change != "" && !slices.Contains(equivalent, r.Alert+": "+change); noticed != expected {
					m := mutants[change]
					t.Errorf("%s with the change %q: a case fails: %v, want %v\n\tfor: %s\n\texpr: %s", r.Alert, change, noticed, expected, m.For, m.Expr)
				}
			}
			<-atATime
		})
	}
	wg.Wait()
	if changes < 250 {
		t.Errorf("only %d changes were tried: is the search still right?", changes)
	}
}

// equivalent are the changes that no case can notice.
var equivalent = []string{
	// The nodes that answered are taken off again.
	`MandateRedisNodeSilent: the matcher "{result=\"failed\"}" at 76 as ""`,
}

func expectations(all []cases, alert string) (fires, silent int) {
	for _, file := range all {
		for _, in := range file.Tests {
			for _, c := range in.Cases {
				switch {
				case c.Alert != alert:
				case len(c.Alerts) > 0:
					fires++
				default:
					silent++
				}
			}
		}
	}
	return fires, silent
}

// play plays the cases of one rule against changed forms of it, each alone, and finds out for
// which one fails. One process plays all: most of a short one's time is its start.
func play(t *testing.T, mutants map[string]rule, all []cases) map[string]bool {
	dir := t.TempDir()
	write := func(name string, content any) {
		b, err := yaml.Marshal(content)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	args := []string{"test", "rules"}
	changeOf := map[string]string{} // by the number in the files' names
	for change, r := range mutants {
		n := strconv.Itoa(len(changeOf))
		changeOf[n] = change
		rules := "rules" + n + ".yml"
		write(rules, map[string]any{"groups": []any{map[string]any{"name": "one", "rules": []rule{r}}}})
		for i, file := range all {
			mine := cases{RuleFiles: []string{rules}, Interval: file.Interval}
			for _, in := range file.Tests {
				in.Cases = slices.DeleteFunc(slices.Clone(in.Cases), func(c expectation) bool { return c.Alert != r.Alert })
				if len(in.Cases) > 0 {
					mine.Tests = append(mine.Tests, in)
				}
			}
			name := fmt.Sprintf("cases-%s-%d.yml", n, i)
			write(name, mine)
			args = append(args, filepath.Join(dir, name))
		}
	}
	b, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Error(err)
	}
	noticed := map[string]bool{}
	parts := regexp.MustCompile(`(?m)^Unit Testing:  .*cases-(\d+)-\d+\.yml$`).FindAllSubmatchIndex(b, -1)
	for i, at := range parts {
		until := len(b)
		if i+1 < len(parts) {
			until = parts[i+1][0]
		}
		change, out := changeOf[string(b[at[2]:at[3]])], string(b[at[1]:until])
		noticed[change] = noticed[change] || strings.Contains(out, "exp:")
		if strings.Contains(out, "SUCCESS") == strings.Contains(out, "exp:") {
			m := mutants[change]
			t.Errorf("%s with the change %q is nothing that promtool can play: for: %s, expr: %s\n%s", m.Alert, change, m.For, m.Expr, out)
		}
	}
	if len(noticed) != len(mutants) {
		t.Errorf("%d of %d forms were played:\n%s", len(noticed), len(mutants), b)
	}
	return noticed
}

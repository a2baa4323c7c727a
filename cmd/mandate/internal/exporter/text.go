package exporter

import (
	"bytes"
	"fmt"
	"strings"
)

// writer writes gauges in the text format of Prometheus.
type writer struct {
	b      *bytes.Buffer
	prefix string
	name   string
}

func (w *writer) family(name, help string) {
	w.name = name
	fmt.Fprintf(w.b, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name)
}

// sample writes a value with the prefix and pairs of further labels.
func (w *writer) sample(value float64, labels ...string) {
	fmt.Fprintf(w.b, "%s{prefix=%s", w.name, quoted(w.prefix))
	for i := 0; i+1 < len(labels); i += 2 {
		fmt.Fprintf(w.b, ",%s=%s", labels[i], quoted(labels[i+1]))
	}
	fmt.Fprintf(w.b, "} %g\n", value)
}

// each writes a family with a sample for each election that has one.
func (w *writer) each(all []reading, name, help string, value func(*reading) (float64, bool)) {
	w.family(name, help)
	for i := range all {
		if v, ok := value(&all[i]); ok {
			w.sample(v, "election", all[i].name)
		}
	}
}

// quoted returns a label's value, escaped: anyone who may write to Redis can choose the names of
// elections.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\uFFFD")) + `"`
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

// result is the result of a step in the summary.
type result struct {
	step, what, measured string
	ok                   bool
}

func summarize(p *output.Printer, results []result, took time.Duration) {
	t := output.NewTable(output.Column{Title: "STEP"}, output.Column{}, output.Column{Title: "WHAT HAPPENED"}, output.Column{Title: "MEASURED"})
	for i, r := range results {
		state, color := "ok", output.Plain
		if !r.ok {
			state, color = "FAILED", output.Red
		}
		t.Row(color, fmt.Sprintf("%d  %s", i+1, r.step), state, r.what, r.measured)
	}
	p.Println("\n%s", p.Paint(output.Bold, "Summary"))
	for _, line := range p.Table(t) {
		p.Println("  %s", line)
	}
	p.Println("\nIt took %.1f s. Now with a real Redis: mandate run --election NAME -- COMMAND", took.Seconds())
}

// transcript prints events, each line with the time since the demo began.
type transcript struct {
	out   *output.Printer
	began time.Time
}

// report prints a line about a candidate, and note prints one about something else.
func (t transcript) report(a *candidate, what string) {
	gap := " "
	if strings.HasPrefix(what, "'") {
		gap = ""
	}
	lines := t.out.Wrap(what, clockWidth+len(a.name+gap))
	t.out.Println("%s  %s%s%s", t.clock(), t.out.Paint(a.color, a.name), gap, strings.Join(lines, "\n"))
}

func (t transcript) note(format string, args ...any) {
	t.out.Println("%s  %s", t.clock(), t.out.Paint(output.Dim, fmt.Sprintf(format, args...)))
}

// clockWidth is the width of the clock and the gap after it.
const clockWidth = 13

func (t transcript) clock() string {
	return t.out.Paint(output.Dim, fmt.Sprintf("%9.3f s", time.Since(t.began).Seconds()))
}

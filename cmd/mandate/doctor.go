package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector/doctor"
)

func doctorCommand(c *connection) *cobra.Command {
	var verbose, asJSON bool
	var lease time.Duration
	cmd := &cobra.Command{
		Use:   "doctor [NAME]",
		Short: "Check whether Redis is fit for elections, with advice",
		Long: `Check whether Redis is fit for elections: a majority answers, fast enough for
the lease; rights; persistence; eviction; replicas and failover; clocks;
delivery of messages; no server is listed twice. With NAME also check that
election, with its leader's lease, its keys and its Cluster slot, its history
and pause, the ticks of its jobs, and its candidates: whether two lead, whether
all vote with the same nodes and have the same settings, and whether another one
could take over.

The first lines are the worst problem and what to do about it; then it prints
all that is wrong, the worst first; a note is what was wrong lately. -v prints
every check; "-" marks what Redis does not reveal (INFO, CONFIG), which is not a
failure. It answers within 7 s. To test the rights it writes keys of its own and
removes them.`,
		Example: `  mandate doctor
  mandate doctor poller --json | jq '.[] | select(.level == "fail") | .advice'`,
		Args:    cobra.MaximumNArgs(1),
		PreRunE: func(_ *cobra.Command, args []string) error { return c.open(append(args, anyElection)[0]) },
		RunE: func(cmd *cobra.Command, args []string) error {
			name := append(args, "")[0]
			findings, err := doctor.Examine(cmd.Context(), c.quorum, doctor.Config{Election: name, Lease: lease, Command: c.given.command})
			if err != nil {
				return err
			}
			if err := printFindings(c.terminal, findings, verbose, asJSON); err != nil {
				return err
			}
			return verdict(findings)
		},
	}
	c.duration(cmd.Flags(), &lease, "lease", 0, 50*time.Millisecond, "the lease to check against (default the leader's, or 10s)")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print every check, also those that found nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array, of every check")
	return cmd
}

// verdict turns the worst finding into the exit code. An unknown election has the same code as in
// the other commands.
func verdict(findings []doctor.Finding) error {
	code := 0
	for _, f := range findings {
		switch {
		case f.Level == doctor.LevelFail:
			code = exitFailures
		case f.Check == "trace" && code != exitFailures:
			code = exitNoLeader
		case f.Level == doctor.LevelWarn && code == 0:
			code = exitWarnings
		}
	}
	if code == 0 {
		return nil
	}
	return &exitError{code: code, err: errors.New("there are problems"), quiet: true}
}

func printFindings(t *terminal, findings []doctor.Finding, verbose, asJSON bool) error {
	if asJSON {
		return output.JSON(t.stdout, findings)
	}
	p := output.New(t.stdout)
	p.Width = cmp.Or(p.Width, helpWidth) // these are sentences, for people also in a file
	fields := output.Fields{{Name: "ok", Text: "nothing is wrong", Color: output.Green}}
	if i := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.Check == doctor.CheckUnseen }); i >= 0 {
		fields[0].Text = "nothing wrong is visible; " + findings[i].Found
	}
	if problems := doctor.Problems(findings); len(problems) > 0 {
		fields = output.Fields{{Name: "problem", Text: sentence(problems[0]), Color: levelColor(problems[0].Level)}, {Name: "next", Text: problems[0].Advice, Color: output.Yellow}}
	}
	lines := append(p.Fields(fields), "")
	count := map[doctor.Level]int{}
	for _, f := range doctor.Merge(findings) {
		count[f.Level]++
		if verbose || f.Level.Worse(doctor.LevelUnknown) || f.Check == "leader" {
			lines = append(lines, findingLines(p, f)...)
		}
	}
	hint := ""
	if !verbose {
		hint = " (-v lists all)"
	}
	return p.Lines(append(lines, "", fmt.Sprintf("failures %d, warnings %d, notes %d, fine %d, not known %d%s",
		count[doctor.LevelFail], count[doctor.LevelWarn], count[doctor.LevelNote], count[doctor.LevelOK], count[doctor.LevelUnknown], hint)))
}

// marks are how a level is printed.
var marks = map[doctor.Level]struct {
	text  string
	color output.Color
}{
	doctor.LevelOK: {"ok  ", output.Green}, doctor.LevelUnknown: {"-   ", output.Dim}, doctor.LevelNote: {"note", output.Cyan}, doctor.LevelWarn: {"warn", output.Yellow}, doctor.LevelFail: {"FAIL", output.Red},
}

// sentence returns what was found, and since when it has been so.
func sentence(f doctor.Finding) string {
	if f.Since.IsZero() {
		return f.Found
	}
	layout := "15:04:05"
	if time.Since(f.Since) > 12*time.Hour {
		layout = dateTimeZone
	}
	return fmt.Sprintf("%s (since %s, %s)", f.Found, f.Since.Local().Format(layout), output.Ago(f.Since))
}

// levelColor returns the color of a line about a finding; of no finding: none.
func levelColor(l doctor.Level) output.Color {
	if l == "" {
		return output.Plain
	}
	return marks[l].color
}

func findingLines(p *output.Printer, f doctor.Finding) []string {
	const indent = 18
	mark, found := marks[f.Level], sentence(f)
	if f.Level == doctor.LevelUnknown {
		found = "not known: " + found
	}
	if f.Node != "" {
		found = f.Node + ": " + found
	}
	lines := p.Wrap(found, indent)
	if len(lines) == 0 { // nothing of it can be printed
		lines = []string{""}
	}
	lines[0] = fmt.Sprintf("%s  %-12s%s", p.Paint(mark.color, mark.text), f.Check, lines[0])
	advice := p.Wrap(f.Advice, indent+3)
	if len(advice) > 0 {
		advice[0] = strings.Repeat(" ", indent) + "-> " + advice[0]
	}
	return append(lines, advice...)
}

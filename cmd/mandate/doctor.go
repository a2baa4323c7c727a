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

func (a *app) doctorCommand() *cobra.Command {
	var verbose, asJSON bool
	var lease time.Duration
	cmd := &cobra.Command{
		Use:   "doctor [NAME]",
		Short: "Check whether Redis is fit for elections, with advice",
		Long: `Check whether Redis is fit for elections: a majority answers, fast enough for
the lease; rights; persistence; eviction; replicas and failover; clocks;
delivery of messages; no server is listed twice. With NAME also check that
election, with its leader's lease, its keys and its Cluster slot, its history
and pause, and its candidates: whether two lead, whether all vote with the same
nodes and have the same settings, and whether another one could take over.

The first lines are the worst finding and what to do about it; then it prints
all that is wrong, and a line for each node. -v prints every check; "-" marks
what Redis does not reveal (INFO, CONFIG), which is not a failure. It answers
within 7 s. To test the rights it writes keys of its own and removes them.

Exit codes
  0  no warnings and no failures
  2  invalid flags or arguments
  3  no failures, and no trace of an election NAME, or it is a group of shards
  5  warnings: elections work, with restrictions
  6  failures: elections do not work, or are not safe`,
		Example: `  mandate doctor
  mandate doctor poller --json | jq '.[] | select(.level == "fail") | .advice'`,
		Args: cobra.MaximumNArgs(1),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.openQuorum(cmd, nil)
			}
			return a.openElection(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := append(args, "")[0]
			if name != "" {
				if err := a.refuseGroup(cmd.Context()); err != nil {
					return err
				}
			}
			findings, err := doctor.Examine(cmd.Context(), a.quorum, doctor.Config{Election: name, Lease: lease, Command: a.given.command})
			if err != nil {
				return err
			}
			if err := a.printFindings(findings, verbose, asJSON); err != nil {
				return err
			}
			return verdict(findings)
		},
	}
	a.duration(cmd.Flags(), &lease, "lease", 0, 50*time.Millisecond, "the lease to check against (default the leader's, or 10s)")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print every check, also those that found nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array, of every check")
	return cmd
}

// verdict turns the worst finding into the exit code. An unknown election has the same code as in
// the other commands.
func verdict(findings []doctor.Finding) error {
	switch worst := doctor.Worst(findings); {
	case worst == doctor.LevelFail:
		return &exitError{code: exitFailures, err: errors.New("there are failures"), quiet: true}
	case slices.ContainsFunc(findings, func(f doctor.Finding) bool { return f.Check == "trace" }):
		return &exitError{code: exitNoLeader, err: errors.New("no trace of the election"), quiet: true}
	case worst == doctor.LevelWarn:
		return &exitError{code: exitWarnings, err: errors.New("there are warnings"), quiet: true}
	default:
		return nil
	}
}

func (a *app) printFindings(findings []doctor.Finding, verbose, asJSON bool) error {
	if asJSON {
		return output.JSON(a.stdout, findings)
	}
	p := output.New(a.stdout)
	p.Width = cmp.Or(p.Width, helpWidth) // these are sentences, for people also in a file
	lines := doctorHeadline(p, findings)
	node := "none yet"
	count := map[doctor.Level]int{}
	for _, f := range findings {
		count[f.Level]++
		if f.Node != node {
			node = f.Node
			title := p.Paint(output.Bold, output.Printable(cmp.Or(node, "all together")))
			if !verbose {
				title += p.Paint(output.Dim, summary(findings, node))
			}
			lines = append(lines, title)
		}
		if verbose || f.Level == doctor.LevelWarn || f.Level == doctor.LevelFail || f.Check == "leader" {
			lines = append(lines, findingLines(p, f)...)
		}
	}
	return p.Lines(append(lines, "", fmt.Sprintf("failures %d, warnings %d, fine %d, not known %d",
		count[doctor.LevelFail], count[doctor.LevelWarn], count[doctor.LevelOK], count[doctor.LevelUnknown])))
}

// doctorHeadline returns the first lines: the most helpful finding, and its advice.
func doctorHeadline(p *output.Printer, findings []doctor.Finding) []string {
	first, found := doctor.First(findings)
	if !found {
		return append(p.Fields([]output.Field{{Name: "ok", Text: "nothing is wrong", Color: output.Green}}), "")
	}
	color := output.Yellow
	if first.Level == doctor.LevelFail {
		color = output.Red
	}
	fields := []output.Field{{Name: "problem", Text: first.Found, Color: color}}
	if first.Advice != "" {
		fields = append(fields, output.Field{Name: "next", Text: first.Advice, Color: output.Yellow})
	}
	return append(p.Fields(fields), "")
}

// summary counts the findings that a short list leaves out.
func summary(findings []doctor.Finding, node string) string {
	fine, unknown := 0, 0
	for _, f := range findings {
		switch {
		case f.Node != node || f.Check == "leader":
		case f.Level == doctor.LevelOK:
			fine++
		case f.Level == doctor.LevelUnknown:
			unknown++
		}
	}
	text := ""
	if fine > 0 {
		text += fmt.Sprintf("  %d fine (-v lists them)", fine)
	}
	if unknown > 0 {
		text += fmt.Sprintf("  %d not known", unknown)
	}
	return text
}

func findingLines(p *output.Printer, f doctor.Finding) []string {
	const indent = 20
	mark, found := p.Paint(output.Green, "ok  "), f.Found
	switch f.Level {
	case doctor.LevelWarn:
		mark = p.Paint(output.Yellow, "warn")
	case doctor.LevelFail:
		mark = p.Paint(output.Red, "FAIL")
	case doctor.LevelUnknown:
		mark, found = p.Paint(output.Dim, "-   "), "not known: "+found
	case doctor.LevelOK:
	}
	lines := p.Wrap(found, indent)
	if len(lines) == 0 {
		lines = []string{""}
	}
	lines[0] = fmt.Sprintf("  %s  %-12s%s", mark, f.Check, lines[0])
	for i, advice := range p.Wrap(f.Advice, indent+3) {
		if i == 0 {
			advice = strings.Repeat(" ", indent) + "-> " + advice
		}
		lines = append(lines, advice)
	}
	return lines
}

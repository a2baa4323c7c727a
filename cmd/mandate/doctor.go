package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	var lease time.Duration
	cmd := &cobra.Command{
		Use:   "doctor [NAME]",
		Short: "Check whether Redis is fit for elections, with advice",
		Long: `Check whether Redis is fit for elections: a majority answers, fast enough for
the lease; rights; persistence; eviction; replicas and failover; clocks;
delivery of messages; no server is listed twice. With NAME also check that
election, with its leader's lease, its keys and its Cluster slot, and its
candidates: whether two lead, and whether all vote with the same nodes.

"-" marks what Redis does not reveal (INFO, CONFIG); that is not a failure. It
answers within 7 s. To test the rights it writes two keys of its own and removes
them.

Exit codes
  0  no warnings and no failures
  2  invalid flags or arguments
  5  warnings: elections work, with restrictions
  6  failures: elections do not work, or are not safe`,
		Example: `  mandate doctor
  mandate doctor poller --json | jq '.[] | select(.level == "fail") | .advice'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeElections,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			return a.observer(cmd, append(args, anyElection)[:1])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			findings, err := doctor.Examine(cmd.Context(), a.quorum, doctor.Config{Election: append(args, "")[0], Lease: lease})
			if err != nil {
				return err
			}
			if err := a.printFindings(findings, asJSON); err != nil {
				return err
			}
			return verdict(findings)
		},
	}
	a.duration(cmd.Flags(), &lease, "lease", 0, 50*time.Millisecond, "the lease to check against (default the leader's, or 10s)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

// verdict makes the worst finding the exit code.
func verdict(findings []doctor.Finding) error {
	switch doctor.Worst(findings) {
	case doctor.LevelWarn:
		return &exitError{code: exitWarnings, err: errors.New("there are warnings"), quiet: true}
	case doctor.LevelFail:
		return &exitError{code: exitFailures, err: errors.New("there are failures"), quiet: true}
	default:
		return nil
	}
}

func (a *app) printFindings(findings []doctor.Finding, asJSON bool) error {
	if asJSON {
		return printJSON(a.stdout, findings)
	}
	p := newPaper(a.stdout)
	marks := map[doctor.Level]string{
		doctor.LevelOK: p.paint("32", "ok  "), doctor.LevelUnknown: p.dim("-   "),
		doctor.LevelWarn: p.paint("33", "warn"), doctor.LevelFail: p.paint("31", "FAIL"),
	}
	var b strings.Builder
	node := "none yet"
	count := map[doctor.Level]int{}
	for _, f := range findings {
		count[f.Level]++
		if f.Node != node {
			node = f.Node
			heading := node
			if node == "" {
				heading = "all together"
			}
			b.WriteString(p.bold(printable(heading)) + "\n")
		}
		found := f.Found
		if f.Level == doctor.LevelUnknown {
			found = "not known: " + found
		}
		const indent = "                    "
		text := strings.TrimPrefix(wrap(found, indent), indent)
		fmt.Fprintf(&b, "  %s  %-12s%s", marks[f.Level], f.Check, text)
		if f.Advice != "" {
			b.WriteString(wrap("-> "+f.Advice, indent))
		}
	}
	fmt.Fprintf(&b, "\nfailures %d, warnings %d, fine %d, not known %d\n",
		count[doctor.LevelFail], count[doctor.LevelWarn], count[doctor.LevelOK], count[doctor.LevelUnknown])
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

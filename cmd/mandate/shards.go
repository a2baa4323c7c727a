package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

func shardsCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "shards GROUP",
		Short: "Show which member of a group owns which shards",
		Long: `Show the members of the group GROUP as they report themselves: how many shards
each owns, how many are due to it by its weight, what it is being given (+) and
hands over (-), and what it leaves to others for now; and which shards have no
owner, and why. The first line shows whether all have one, and what to type next
if not. It reads each Redis node once, for at most 1.5 s, and writes nothing.

The election of a shard shows who owns it, and since when:
mandate status 'GROUP#7'.`,
		Example: `  mandate shards invoices
  mandate shards invoices --json | jq '.unowned[].shard'`,
		PreRunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				c.problem("%d arguments given: give the name of one group", len(args))
			}
			return c.open(anyElection)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return showShards(cmd.Context(), c, args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func showShards(ctx context.Context, c *connection, group string, asJSON bool) error {
	st, err := shard.Read(ctx, c.quorum, group)
	switch {
	case errors.As(err, new(*elector.ConfigError)):
		c.addProblems(err, func(string) string { return "NAME" })
		return c.usage()
	case errors.Is(err, shard.ErrNoGroup):
		return &exitError{code: exitNoLeader, err: fmt.Errorf("no members of a group %s: none is running, or Redis refuses them (%s asks those that run), or the name or the prefix is wrong. "+
			"Members are forgotten two leases after the last one has ended. For an election: %s", group, c.given.command("doctor", group+"#assigner"), c.given.command("status", group))}
	case err != nil:
		return err
	}
	err = c.print(asJSON, st, func(p *output.Printer) []string {
		return slices.Concat(p.Fields(groupFields(c, st)), []string{""}, p.Table(memberTable(st)))
	})
	if err == nil && len(st.Unowned) > 0 {
		err = &exitError{code: exitNoLeader, err: errors.New("a shard has no owner"), quiet: true}
	}
	return err
}

func groupFields(c *connection, st shard.Status) (all output.Fields) {
	why, next := failing(st, c.given)
	switch {
	case len(st.Unowned) == 0 && why != "":
		all.Add("problem", why, output.Yellow)
		all.Add("next", next, output.Plain)
	case len(st.Unowned) == 0:
		all.Add("ok", fmt.Sprintf("all %d shards have an owner", st.Shards), output.Green)
	default:
		first := st.Unowned[0]
		all.Add("problem", fmt.Sprintf("%d of %d shards have no owner: %s (%s)", len(st.Unowned), st.Shards, unowned(st), first.Why), output.Red)
		all.Add("next", c.given.command("status", shard.ElectionOf(st.Group, first.Shard)), output.Plain)
	}
	all.Add("members", fmt.Sprintf("%d, lease %v", len(st.Members), st.Lease), output.Plain)
	for _, m := range st.Missing {
		all.Add("missing", fmt.Sprintf("%s (host %s, process %d) since %s (%s): it ended without leaving, or cannot reach Redis", m.ID, cmp.Or(m.Host, "unknown"), m.PID, m.Since.Local().Format(dateTimeZone), output.Ago(m.Since)), output.Yellow)
	}
	if st.Assigner != "" {
		all.Add("assigner", st.Assigner, output.Plain)
	} else {
		all.Add("assigner", "none: shards stay where they are", output.Yellow)
	}
	if len(st.Moving) > 0 {
		all.Add("moving", shard.Set(st.Moving).String(), output.Plain)
	}
	for _, err := range st.Problems {
		all.Add("redis", err.Error(), output.Yellow)
	}
	return all
}

func memberTable(st shard.Status) *output.Table {
	t := output.NewTable("MEMBER", "OWNED", "DUE", "MOVING", "WEIGHT", "VERSION", "SHARDS")
	for _, m := range st.Members {
		var color output.Color
		weight := ""
		if m.Weight != 1 {
			weight = formatNumber(m.Weight)
		}
		if m.Closed != "" || len(m.Unable) > 0 {
			color = output.Yellow
		}
		t.Row(color, m.ID, strconv.Itoa(len(m.Owned)), formatNumber(m.Due), moving(m), weight, m.Version, shard.Set(m.Owned).String())
		if m.Closed != "" {
			t.Note(color, "wants no shards: "+m.Closed)
		}
		if len(m.Unable) > 0 {
			t.Note(color, "leaves "+shard.Set(m.Unable).String()+" to others for now, after failed work or a step-down")
		}
	}
	return t
}

// formatNumber formats a due or a weight, which may have any size.
func formatNumber(f float64) string { return strconv.FormatFloat(f, 'g', 4, 64) }

// moving formats how many shards a member is being given (+), and hands over (-).
func moving(m shard.MemberStatus) string {
	missing := func(shards, from []int) int {
		return len(slices.DeleteFunc(slices.Clone(shards), func(s int) bool { return slices.Contains(from, s) }))
	}
	text := ""
	if n := missing(m.Planned, m.Owned); n > 0 {
		text = fmt.Sprintf("+%d", n)
	}
	if n := missing(m.Owned, m.Planned); n > 0 {
		text += fmt.Sprintf(" -%d", n)
	}
	return text
}

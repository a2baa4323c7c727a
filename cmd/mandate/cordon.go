package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func (a *app) cordonCommand() *cobra.Command {
	var reason, by string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cordon [MEMBER]",
		Short: "Keep a candidate from campaigning, in all elections",
		Long: `Cordon MEMBER: it does not campaign, in any election and any group of shards
under the prefix, until it is uncordoned. What it leads it keeps. MEMBER is the
id of a candidate or of a member of a group, or the name of a host: then all
that run there. The cordon is kept in Redis and survives restarts of the
candidates; one whose id changes with each start is cordoned by its host.
Candidates that run follow it within moments. To have it hand over what it
leads, too, use drain. Where no candidate and no host that answers is called
MEMBER, stderr says so: the cordon is kept, since it may be down.

Without MEMBER it lists what is cordoned, by whom, since when and why.

Exit codes
  0  cordoned on all nodes; or listed
  1  cordoned, but not on all nodes; stderr names the others
  2  invalid flags or arguments
  4  no majority of the Redis nodes answered`,
		Example: `  mandate cordon worker-3 --reason "kernel update"
  mandate cordon`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeMembers,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			a.checkReason(reason)
			by = a.operator(by)
			return a.openMember(cmd, args, 0)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listCordons(cmd.Context(), asJSON)
			}
			c := elector.Cordon{ID: args[0], By: by, Reason: reason, Since: time.Now()}
			return a.cordon(cmd, c, asJSON)
		},
	}
	a.byFlag(cmd, &by)
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` that candidates, status, doctor and the history show")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object, of the list an array")
	return cmd
}

func (a *app) drainCommand() *cobra.Command {
	var reason, by string
	var asJSON, yes bool
	cmd := &cobra.Command{
		Use:   "drain MEMBER",
		Short: "Have a candidate hand over all that it leads",
		Long: `Cordon MEMBER, and have it hand over what it leads under the prefix, elections
and shards, each as soon as another candidate or member can take it: its work
stops, then the other one leads. What no other one could lead it keeps until
one can; mandate status and mandate shards show that. MEMBER is the id or the
host that cordon takes. It is kept in Redis and survives restarts, until
mandate uncordon. Does not wait for the handovers. Like cordon, it warns on
stderr if MEMBER is not found.

On a terminal it asks first; --yes answers in advance.

Exit codes
  0  drained on all nodes; the handovers follow
  1  drained, but not on all nodes; stderr names the others. Or the question
     was not answered with yes
  2  invalid flags or arguments
  4  no majority of the Redis nodes answered`,
		Example:           `  mandate drain worker-3 --reason "kernel update"`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeMembers,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			a.checkReason(reason)
			by = a.operator(by)
			return a.openMember(cmd, args, 1)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				if err := a.confirm(cmd, "Drain "+args[0]+"? It hands over all that it leads, and does not campaign until it is uncordoned."); err != nil {
					return err
				}
			}
			return a.cordon(cmd, elector.Cordon{ID: args[0], By: by, Reason: reason, Since: time.Now(), Drain: true}, asJSON)
		},
	}
	a.byFlag(cmd, &by)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` that candidates, status, doctor and the history show")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) cordon(cmd *cobra.Command, c elector.Cordon, asJSON bool) error {
	err := a.quorum.Cordon(cmd.Context(), c)
	return a.printCordon(cmd, err, cordonJSON{ID: c.ID, Cordoned: true, Drain: c.Drain, By: c.By, Reason: c.Reason}, asJSON)
}

func (a *app) uncordonCommand() *cobra.Command {
	var reason, by string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "uncordon MEMBER",
		Short: "Let a cordoned candidate campaign again",
		Long: `End the cordon of MEMBER, as it was given to cordon or drain: it campaigns
again at once. If there is none, that is not an error.

Exit codes
  0  MEMBER is not cordoned
  1  uncordoned, but not on all nodes; stderr names the others
  2  invalid flags or arguments
  4  no majority of the Redis nodes answered`,
		Example:           `  mandate uncordon worker-3`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeCordoned,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			a.checkReason(reason)
			by = a.operator(by)
			return a.openMember(cmd, args, 1)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			done := cordonJSON{ID: args[0], By: by, Reason: reason}
			if list, err := a.quorum.Cordons(cmd.Context()); err == nil {
				if i := slices.IndexFunc(list, func(c elector.Cordon) bool { return c.ID == args[0] }); i >= 0 {
					done.was = &list[i]
				}
			}
			_, err := a.quorum.Uncordon(cmd.Context(), elector.Cordon{ID: args[0], By: by, Reason: reason})
			return a.printCordon(cmd, err, done, asJSON)
		},
	}
	a.byFlag(cmd, &by)
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` that the history shows")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// openMember is the PreRunE of a command on one member, which needs at least so many arguments.
func (a *app) openMember(cmd *cobra.Command, args []string, least int) error {
	switch {
	case len(args) > 1 || len(args) < least:
		a.problem("%d arguments given: give one candidate's id, or a host", len(args))
	case len(args) == 1 && (args[0] == "" || len(args[0]) > maxMember || strings.ContainsFunc(args[0], unfit)):
		a.problem("MEMBER is %.120q: give a candidate's id or a host, without spaces, of at most %d bytes", args[0], maxMember)
	}
	return a.openQuorum(cmd, nil)
}

const maxMember = 200

// unfit reports whether no id may contain r.
func unfit(r rune) bool { return r <= ' ' || r == 0x7f || r == '\uFFFD' }

// cordonJSON is what cordon and uncordon print with --json.
type cordonJSON struct {
	ID       string `json:"id"`
	Cordoned bool   `json:"cordoned"`
	Drain    bool   `json:"drain,omitempty"`
	By       string `json:"by,omitempty"` // the operator who has cordoned or uncordoned it
	Reason   string `json:"reason,omitempty"`
	Error    string `json:"error,omitempty"` // of the nodes that did not store it
	// Unrecorded is why the history lacks it, although all nodes have stored it.
	Unrecorded string `json:"unrecorded,omitempty"`
	Unknown    bool   `json:"unknown,omitempty"` // no candidate, member or host that answers is called ID

	was *elector.Cordon // the cordon that has ended; nil: there was none
}

func (c cordonJSON) String() string {
	switch {
	case c.Cordoned && c.Drain:
		return c.ID + " is drained: it hands over what it leads as soon as another can take it, and does not campaign until it is uncordoned"
	case c.Cordoned:
		return c.ID + " is cordoned: it does not campaign until it is uncordoned; what it leads it keeps"
	case c.was == nil:
		return c.ID + " was not cordoned"
	default:
		return c.ID + " campaigns again; it was " + cordonedBy(*c.was)
	}
}

// cordonedBy describes a cordon: what was done, by whom, since when and why.
func cordonedBy(c elector.Cordon) string {
	text := "cordoned"
	if c.Drain {
		text = "drained"
	}
	if c.By != "" {
		text += " by " + c.By
	}
	if !c.Since.IsZero() {
		text += " since " + c.Since.Local().Format(dateTimeZone)
	}
	if c.Reason != "" {
		text += " (" + c.Reason + ")"
	}
	return text
}

// printCordon prints what was done, unless no majority of the nodes did it. An entry that is
// missing in the history is no failure: the member is cordoned, or no longer is. Nor is an unknown
// name: the cordon is kept for a candidate that is down.
func (a *app) printCordon(cmd *cobra.Command, err error, done cordonJSON, asJSON bool) error {
	var unrecorded error
	switch {
	case errors.Is(err, elector.ErrUnreachable):
		return err
	case errors.Is(err, elector.ErrNotRecorded):
		done.Unrecorded, unrecorded, err = elector.Problem(err), err, nil
	case err != nil:
		done.Error = elector.Problem(err)
	}
	if p := output.New(a.stdout); !asJSON { // print now: the search for the member may take seconds
		err = cmp.Or(p.Lines(p.Prose(output.Printable(done.String()))), err)
	}
	nobody := ""
	if done.Cordoned {
		nobody = a.nobodyCalled(cmd.Context(), done.ID)
		done.Unknown = nobody != ""
	}
	if asJSON {
		err = cmp.Or(output.JSON(a.stdout, done), err)
	}
	if nobody != "" {
		a.printError(cmd.CommandPath() + ": " + nobody + "\nThe cordon is kept for one that starts later; to end it: " + a.given.command("uncordon", done.ID))
	}
	if unrecorded != nil {
		a.printError(cmd.CommandPath() + ": " + formatError(aboutNodes(unrecorded)))
	}
	return err
}

func (a *app) listCordons(ctx context.Context, asJSON bool) error {
	list, err := a.quorum.Cordons(ctx)
	p := a.printer(format{})
	switch {
	case err != nil:
		return err
	case asJSON:
		return output.JSON(a.stdout, list)
	case len(list) == 0:
		return p.Lines([]string{"nothing is cordoned under the prefix " + output.Printable(a.prefix)})
	}
	t := output.NewTable(output.Column{Title: "MEMBER", Name: true}, output.Column{Title: "DRAINED"}, output.Column{Title: "BY"},
		output.Column{Title: "SINCE"}, output.Column{Title: "REASON", Rest: true})
	for _, c := range list {
		drained, since := "", ""
		if c.Drain {
			drained = "yes"
		}
		if !c.Since.IsZero() {
			since = c.Since.Local().Format(dateTimeZone)
		}
		t.Row(output.Plain, c.ID, drained, c.By, since, c.Reason)
	}
	return p.Lines(p.Table(t))
}

func (a *app) completeCordoned(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.offer(cmd, begin, func(ctx context.Context, q *elector.Quorum) (ids []string) {
		list, _ := q.Cordons(ctx) // a shell completion has no place for errors
		for _, c := range list {
			ids = append(ids, c.ID)
		}
		return ids
	})
}

// completeMembers offers the candidates of some elections, the members of some groups, and their
// hosts.
func (a *app) completeMembers(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	const elections = 20
	return a.offer(cmd, begin, func(ctx context.Context, q *elector.Quorum) []string {
		names, _, _ := q.ElectionsByUse(ctx) // as above
		n := readMembers(ctx, q, names[:min(len(names), elections)], "")
		words := slices.AppendSeq(slices.Collect(maps.Keys(n.ids)), maps.Keys(n.hosts))
		slices.Sort(words)
		return slices.Compact(words)
	})
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// waitFlags are the conditions for wait to return.
type waitFlags struct {
	url     string // instead of an election
	answers health.Probe
	leader  string        // empty: any
	led     time.Duration // how long the leader must have led
	timeout time.Duration
	asJSON  bool
}

func waitCommand(c *connection) *cobra.Command {
	var o waitFlags
	cmd := &cobra.Command{
		Use:   "wait {NAME | --url URL}",
		Short: "Wait until there is a leader, for scripts",
		Long: `Wait until the election NAME has a leader, and print it: any leader, or the one
of --leader, that has led for --for by its own clock. If there is one already,
it returns at once. While Redis is unreachable, it continues to wait.

With --url it waits until GET of URL answers 2xx, and needs no Redis: the health
check of a container without a shell, in which mandate runs with --http.`,
		Example: `  mandate wait poller && ./smoke-test
  mandate wait poller --leader worker-2 --for 10s --timeout 2m
  HEALTHCHECK CMD ["mandate", "wait", "--url", "http://127.0.0.1:7480/live", "--timeout", "2s"]`,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if o.url == "" {
				return c.openElection(cmd, args)
			}
			if len(args) > 0 {
				c.problem("%q and --url are given: give one of them", args[0])
			}
			if o.leader != "" || o.led > 0 || o.asJSON {
				c.problem("--leader, --for and --json are about an election: leave them out with --url")
			}
			o.answers = new(probeFlags).checked(c.terminal, "", probeTargets{{flag: "url", kind: "http", target: o.url}}, 0)
			return c.usage()
		},
		RunE: c.onElection(func(ctx context.Context, el *elector.Election) error {
			if o.answers != nil {
				return o.await(ctx, func(ctx context.Context) (bool, error) {
					err := o.answers.Check(ctx)
					return err == nil, err
				})
			}
			l, err := awaitLeader(ctx, el, o)
			if err != nil {
				return err
			}
			return c.print(o.asJSON, l, func(*output.Printer) []string {
				return []string{output.Printable(fmt.Sprintf("%s leads, token %d", l.Candidate, l.Token))}
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.url, "url", "", "instead of NAME: wait until GET of `URL` answers 2xx")
	f.StringVar(&o.leader, "leader", "", "wait until the candidate `ID` leads")
	c.duration(f, &o.led, "for", 0, 0, "until it has led for this time (default: at once)")
	c.duration(f, &o.timeout, "timeout", 30*time.Second, time.Millisecond, "how long to wait")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object, the leader")
	return cmd
}

// lookForLeader is how often wait looks.
const lookForLeader = 200 * time.Millisecond

// await looks until that is done, or the time is over: then it returns what the last look lacked.
func (o waitFlags) await(ctx context.Context, look func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	until, _ := ctx.Deadline()
	var last error
	for {
		done, err := look(ctx)
		if done {
			return err
		}
		// A query that was cut off by the time-out proves nothing about the nodes, or that no candidate is there: its
		// connection may notice the end of the time before the context does.
		if last == nil || ctx.Err() == nil && time.Now().Before(until) {
			last = err
		}
		if sleep(ctx, lookForLeader); ctx.Err() != nil {
			return fmt.Errorf("waited for %v: %w", o.timeout, last)
		}
	}
}

// awaitLeader reads the status until it shows the leader, or the time is over.
func awaitLeader(ctx context.Context, el *elector.Election, o waitFlags) (leader elector.Leader, err error) {
	first := map[uint64]time.Time{} // when each term was first seen
	err = o.await(ctx, func(ctx context.Context) (bool, error) {
		st, err := el.Status(ctx)
		if errors.Is(err, elector.ErrDenied) {
			return true, err
		}
		if l := st.Leader; err == nil && l != nil && (o.leader == "" || o.leader == l.Candidate) {
			first[l.Token] = cmp.Or(first[l.Token], time.Now())
			led := time.Since(first[l.Token])
			if !l.Since.IsZero() {
				led = max(led, time.Since(l.Since))
			}
			if led >= o.led {
				leader = *l
				return true, nil
			}
		}
		return false, o.lacks(st, err, err == nil && unknownElection(ctx, el, st))
	})
	return leader, err
}

// lacks returns the error that describes what an answer lacked. unknown: neither a node nor a
// candidate knows the election.
func (o waitFlags) lacks(st elector.Status, err error, unknown bool) error {
	why := "no leader"
	switch {
	case err != nil:
		return &exitError{code: exitUnreachable, err: err}
	case st.MayLead != nil:
		err = fmt.Errorf("%s may lead: mandate status shows why that is not known", st.MayLead.Candidate)
		return &exitError{code: exitUnreachable, err: err}
	case st.Leader != nil && o.leader != "" && st.Leader.Candidate != o.leader:
		why = fmt.Sprintf("%s leads, not %s", st.Leader.Candidate, o.leader)
	case st.Leader != nil:
		why = fmt.Sprintf("%s leads, but not for %v yet", st.Leader.Candidate, o.led)
	case st.Paused:
		why = fmt.Sprintf("no leader: the election is paused (%s)", st.Pause)
	case st.Blocked != "":
		why = "no leader, and no candidate can lead: " + st.Blocked
	case unknown:
		why = "no leader; " + noTrace
	}
	return &exitError{code: exitNoLeader, err: errors.New(why)}
}

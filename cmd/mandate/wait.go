package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// waitFlags are the conditions for wait to return.
type waitFlags struct {
	leader  string        // empty: any
	led     time.Duration // how long the leader must have led
	timeout time.Duration
	asJSON  bool
}

func (a *app) waitCommand() *cobra.Command {
	var o waitFlags
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until there is a leader, for scripts",
		Long: `Wait until the election NAME has a leader, and print it: any leader, or the one
of --leader, that has led for --for by its own clock. If there is one already,
it returns at once. While Redis is unreachable, it continues to wait; also for a
name of which nothing is known yet, which it reports at once on stderr.

Exit codes
  0  the leader matches
  2  invalid flags or arguments
  3  there was no such leader within --timeout
  4  no majority of the Redis nodes answered when --timeout ended, or the Redis
     user lacks the right to read`,
		Example: `  mandate wait poller && ./smoke-test
  mandate wait poller --leader worker-2 --for 10s --timeout 2m`,
		Args:    cobra.ArbitraryArgs,
		PreRunE: a.openElection,
		RunE: a.onElection(func(ctx context.Context, el *elector.Election) error {
			l, err := awaitLeader(ctx, el, o, func() {
				a.log.Warn("nothing is known of this election yet", "election", el.Name(), "waiting", o.timeout, "advice", a.given.command("ls"))
			})
			if err != nil {
				return err
			}
			if o.asJSON {
				return output.JSON(a.stdout, l)
			}
			return output.New(a.stdout).Lines([]string{output.Printable(fmt.Sprintf("%s leads, token %d", l.Candidate, l.Token))})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.leader, "leader", "", "wait until the candidate `ID` leads")
	a.duration(f, &o.led, "for", 0, 0, "until it has led for this time (default: at once)")
	a.duration(f, &o.timeout, "timeout", 30*time.Second, time.Millisecond, "how long to wait")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object, the leader")
	return cmd
}

// awaitLeader reads the status at each change, and once a second in case one is missed. It calls
// onUnknown once when neither a node nor a candidate knows the election.
func awaitLeader(ctx context.Context, el *elector.Election, o waitFlags, onUnknown func()) (elector.Leader, error) {
	until := time.Now().Add(o.timeout)
	ctx, cancel := context.WithDeadline(ctx, until)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	changed := make(chan struct{}, 1)
	wg.Go(func() {
		for range el.Observe(ctx) {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	})
	first := map[uint64]time.Time{} // when each term was first seen
	var last func() error           // why the last answer was not sufficient
	for {
		st, err := el.Status(ctx)
		if errors.Is(err, elector.ErrDenied) {
			return elector.Leader{}, err
		}
		unknown := err == nil && unknownElection(ctx, el, st)
		if unknown && onUnknown != nil {
			onUnknown()
			onUnknown = nil
		}
		// A query that was cut off by the time-out proves nothing about the nodes: its connection
		// may notice the end of the time before the context does.
		if last == nil || ctx.Err() == nil && time.Now().Before(until) {
			last = func() error { return o.timedOut(st, err, unknown) }
		}
		next := time.Second
		if l := st.Leader; err == nil && l != nil && (o.leader == "" || o.leader == l.Candidate) {
			if first[l.Token].IsZero() {
				first[l.Token] = time.Now()
			}
			led := time.Since(first[l.Token])
			if !l.Since.IsZero() {
				led = max(led, time.Since(l.Since))
			}
			if led >= o.led {
				return *l, nil
			}
			next = min(next, o.led-led)
		}
		timer := time.NewTimer(next)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return elector.Leader{}, last()
		}
		timer.Stop()
	}
}

// timedOut returns the error that describes what an answer lacked. unknown: neither a node nor a
// candidate knows the election.
func (o waitFlags) timedOut(st elector.Status, err error, unknown bool) error {
	why := "no leader"
	switch {
	case err != nil:
		return &exitError{code: exitUnreachable, err: within(fmt.Sprintf("waited for %v: ", o.timeout), aboutNodes(err))}
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
	return &exitError{code: exitNoLeader, err: fmt.Errorf("waited for %v: %s", o.timeout, why)}
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
	"github.com/mandate-dev/mandate/elector"
)

const runHelp = `Run COMMAND only while this candidate leads, and campaign again when the term
ends. Run the same command on every machine: one of them runs COMMAND.

COMMAND gets mandate's stdin, stdout and stderr, its own process group, and
  MANDATE_ELECTION, MANDATE_ID   the election, and this candidate's name in it
  MANDATE_HTTP                   with --http: the address, http://host:port
  MANDATE_TOKEN                  the term's fencing token: larger in every term

When the lease is lost, a probe fails, or mandate gets SIGTERM, SIGINT or
SIGHUP, COMMAND and every process that it started get SIGTERM, and SIGKILL after
--grace: always before another candidate can lead. The lock is released when
none of these processes is left. A second signal to mandate kills them at once.
Processes that COMMAND leaves behind when it exits are stopped in the same way.
If mandate itself is killed (-9), or stopped beyond its lease, two small helper
processes kill them; a guard that is killed is replaced.

On Linux these are all descendants of COMMAND, even those that left its process
group, session or parent (timeout, set -m, setsid, daemons). If a cgroup v2 was
delegated to mandate (Delegate=yes in a systemd unit, a container with a
writable /sys/fs/cgroup), they are all members of COMMAND's own cgroup, even
processes of other users. On other systems it is COMMAND's process group only.

Probes. --probe-* check the running command, and only while it runs.
--candidate-probe-* are checked at all times: a candidate whose probe fails does
not campaign. Both may be repeated; all must pass. After a step-down because of
a failed probe this candidate does not campaign for --cooldown.

What mandate run cannot protect against:
  - processes of another user (sudo), unless mandate is root or has a cgroup,
    and processes that other programs start for COMMAND (docker run,
    systemd-run, at): they are not stopped. Those found are named in the log;
  - mandate and its helpers mandate-guard and mandate-reaper stopped together
    (kill -STOP), or a suspended machine: COMMAND may then overlap with the next
    leader's. If mandate and mandate-reaper are killed together, COMMAND dies
    too on Linux, but its children only if it has a cgroup;
  - a request that COMMAND sent before it was stopped, and that arrives late.
Pass MANDATE_TOKEN to what COMMAND writes to, and have it refuse smaller tokens.

With --http ADDR anyone who can reach that port can query the leader: load
balancers (GET /leader: 200 on the leader), dashboards, COMMAND itself. See
docs/http.md.

COMMAND is not in the terminal's foreground: reading from the terminal stops it.

Exit codes
  0         ended by a signal, after the lock was released
  N         with --once: COMMAND's own code, or 128+N when signal N killed it
  2         invalid flags or arguments
  8         ended by a signal; the lock was not released, because Redis was
            unreachable until the lock had lapsed, or until a second signal
  69        permanent refusal by Redis (password, rights, key types)
  126, 127  COMMAND cannot be executed, was not found
  1         anything else`

const runExample = `  mandate run --election poller -- ./poller --batch 100

  # replace a leader that hangs: ./poller touches the file after every batch
  mandate run --election poller \
    --probe-file /run/poller.alive --probe-file-age 30s -- ./poller

  # three independent Redis servers, a majority decides
  mandate run --redis redis://a --redis redis://b --redis redis://c \
    --election backup -- ./backup`

// runFlags are the flags of `mandate run`, as they were given.
type runFlags struct {
	election, id, advertise string

	succession successionFlags

	lease, grace, restartDelay, cooldown time.Duration
	once                                 bool

	probeFlags
	http httpFlags
}

func (a *app) runCommand() *cobra.Command {
	var o runFlags
	cmd := &cobra.Command{
		Use:     "run --election NAME [flags] -- COMMAND [ARG...]",
		Short:   "Run a command only while leading",
		Long:    runHelp,
		Example: runExample,
		// The command line is checked by run itself, with everything else.
		Args: cobra.ArbitraryArgs,
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows COMMAND is the command's
	f.SortFlags = false
	f.StringVar(&o.election, "election", "", "`NAME` that all candidates share (required)")
	a.completeElectionFlag(cmd)
	a.duration(f, &o.lease, "lease", 10*time.Second, 50*time.Millisecond, "how long a lock lives unless renewed; the same for all candidates")
	a.duration(f, &o.grace, "grace", 0, 0, "time from SIGTERM to SIGKILL; must fit into the lease (default a fifth of it)")
	f.BoolVar(&o.once, "once", false, "exit with the command's exit code when the command exits")
	a.duration(f, &o.restartDelay, "restart-delay", 0, 0, "delay before COMMAND runs again after it has exited (default a tenth of the lease)")
	a.duration(f, &o.cooldown, "cooldown", 0, 0, "no campaign for this time after a probe failed; doubles with each consecutive failure (default the lease)")
	f.StringVar(&o.id, "id", "", "this candidate's name (default: host, process and a random part)")
	f.StringVar(&o.advertise, "advertise", "", "where the leader can be reached, shown by status (`ADDR` is free text)")
	a.httpFlags(f, &o.http, "", "`ADDR` to report leadership on (GET /leader, /events, ...); without a host it is the loopback interface")
	a.successionFlags(cmd, &o.succession)
	a.probeFlags(f, &o.probeFlags)
	var j *job
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		if err = supervise.Supported(); err == nil {
			j, err = a.job(cmd, &o, args)
		}
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, err := a.listen(cmd.Context(), o.http, j.httpToken, a.elector, j.grace)
		if err != nil {
			return err
		}
		j.http = w.url()
		// Beside the candidate's own line: its arguments may be secrets.
		j.log.Info("command configured", "command", j.path, "grace", j.grace, "kill_time", j.kill, "once", j.once)
		return w.beside(func() error { return a.runJob(cmd.Context(), a.elector, j, w.keeping(j.work)) })
	}
	return cmd
}

// runJob campaigns until a signal, or the command with --once, ends it.
func (a *app) runJob(ctx context.Context, e *elector.Elector, j *job, work elector.Work) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	j.stop = stop
	hurry, end := a.onSignals(stop, "the command is killed now")
	defer end()
	j.hurry = hurry
	supervise.Adopt()
	defer j.aside.Wait()
	var working sync.Mutex
	ended := make(chan error, 1)
	go func() {
		ended <- e.Run(ctx, func(ctx context.Context, term *elector.Term) error {
			working.Lock()
			defer working.Unlock()
			return work(ctx, term)
		})
	}()
	select {
	case err := <-ended:
		return err
	case <-j.hurry:
	}
	// A second signal does not wait for a Redis that is away, but for the command.
	working.Lock()
	defer working.Unlock()
	return hurried(ended)
}

// job reads the flags into an elector and the job to do. It reports everything
// that is wrong with them at once; only a command that can't be run is reported
// alone, as a shell would.
func (a *app) job(cmd *cobra.Command, o *runFlags, args []string) (*job, error) {
	if o.election == "" {
		a.problem("--election is missing: give the name that all candidates of this election share")
	}
	if len(args) == 0 || args[0] == "" {
		a.problem("no command given: write it at the end, after --")
	}
	f := cmd.Flags()
	grace, kill := a.stopTimes(o, f.Changed("grace"))
	cfg := elector.Config{
		Election: cmp.Or(o.election, "missing"), ID: o.id, Advertise: o.advertise,
		Lease: o.lease, StopMargin: grace + kill,
		Cooldown: orNone(o.cooldown, f.Changed("cooldown")), RestartDelay: orNone(o.restartDelay, f.Changed("restart-delay")),
	}
	a.succession(&o.succession, &cfg)
	a.probes(f, &o.probeFlags, &cfg)
	token := a.token(cmd.Context(), o.http)
	if err := a.candidate(cfg); err != nil {
		return nil, err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, notStarted(args[0], err)
	}
	return &job{
		path: path, argv: args, once: o.once, election: o.election, id: a.elector.ID(),
		lease: o.lease, grace: grace, kill: kill, httpToken: token, log: a.log.With(slog.String("election", o.election)),
	}, nil
}

// stopTimes divides the time that is left of the lease when the work must
// stop: the grace, and then the time that SIGKILL needs on a busy machine.
func (a *app) stopTimes(o *runFlags, graceGiven bool) (grace, kill time.Duration) {
	kill = killTime(o.lease)
	if !graceGiven {
		return o.lease / 5, kill
	}
	room := func(lease time.Duration) time.Duration {
		return elector.Config{Lease: lease}.MaxStopMargin() - killTime(lease)
	}
	if maxGrace := room(o.lease); o.grace > maxGrace {
		enough := o.lease
		for room(enough) < o.grace && enough < elector.MaxLease {
			enough = min(elector.MaxLease, enough+max(time.Second, enough/20).Truncate(time.Second))
		}
		longer := ""
		if room(enough) >= o.grace {
			longer = fmt.Sprintf(", or --lease %v", enough)
		}
		a.problem("--grace %v does not fit into --lease %v: SIGKILL must come before the lease ends, so use at most --grace %v%s",
			o.grace, o.lease, max(0, maxGrace.Truncate(time.Millisecond)), longer)
		return o.lease / 5, kill
	}
	return o.grace, kill
}

// killTime is what the last processes of a group may take to die of SIGKILL, and
// the guard's report to arrive, on a busy machine.
func killTime(lease time.Duration) time.Duration { return min(lease/10, time.Second) }

// orNone makes a duration that was given as 0 mean none: in the library's
// Config a zero means the default.
func orNone(d time.Duration, given bool) time.Duration {
	if given && d == 0 {
		return -1
	}
	return d
}

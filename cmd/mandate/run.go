//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/elector/supervisor"
)

const runHelp = `Run COMMAND only while this candidate leads, and campaign again when the term
ends. Run the same command on every machine: one of them runs COMMAND.

COMMAND gets mandate's stdin, stdout and stderr, its own process group, and
  MANDATE_ELECTION, MANDATE_ID   the election, and this candidate's name in it
  MANDATE_HTTP                   with --http: the address, http://host:port
  MANDATE_TOKEN                  the term's fencing token: larger in every term

When the lease is lost, a probe fails, or mandate gets SIGTERM, SIGINT or
SIGQUIT, or loses its terminal, COMMAND and every process that it started get
SIGTERM (or --stop-signal), and SIGKILL after --grace: always before another
candidate can lead. The lock is released when none of these processes is left. A
second signal to mandate kills them at once. Processes that COMMAND leaves
behind when it exits, such as a daemon, are stopped in the same way. SIGHUP,
SIGUSR1 and SIGUSR2 are passed on to COMMAND, to reload for example.
If mandate itself is killed (-9), or stopped beyond its lease, a small helper
process, the parent of all commands, kills them. On Linux it also releases the
locks of a mandate that was killed, when none of them is left, and what GET
/leader has promised has lapsed. If the helper is killed, mandate kills them,
and the term ends; and when the term ends while a debugger holds the helper.

On Linux these are all descendants of COMMAND, even those that left its process
group, session or parent (timeout, set -m, setsid, daemons). On other systems
it is COMMAND's process group only.

Probes. --probe-* check the running command, and only while it runs.
--candidate-probe-* are checked at all times: a candidate whose probe fails does
not campaign. Both may be repeated; all must pass. After a step-down because of
a failed probe this candidate does not campaign for --cooldown.

What mandate run cannot protect against:
  - processes of another user (sudo), unless mandate is root, and processes that
    other programs start for COMMAND (docker run, systemd-run, at): they are not
    stopped;
  - mandate and its mandate-helper stopped together (kill -STOP), or one stopped
    and the other killed, or a suspended machine: COMMAND, or its children, may
    then overlap with the next leader's. If both are killed together, COMMAND
    dies too on Linux, but not its children;
  - a request that COMMAND sent before it was stopped, and that arrives late.
Pass MANDATE_TOKEN to what COMMAND writes to, and have it refuse smaller tokens.

Cron. On all hosts, at the same minute:
  mandate run --election backup --once --wait 0s --hold 1m -- ./backup
One host runs ./backup. The others exit with 9 at once, and so does a host whose
clock is less than a minute behind, because the lock of a command that has
succeeded is held for that long, counted from its start.

Many shards. With --group NAME --shards N this process is a member of a group
instead of a candidate: the members own the N shards evenly, and each runs one
COMMAND for every shard that it owns, which also gets
  MANDATE_SHARD, MANDATE_SHARDS  the shard, from 0, and how many there are
  MANDATE_GROUP                  the group; MANDATE_ELECTION is GROUP#SHARD
Each COMMAND lives as long as its own shard's lease, with a token and probes of
its own; one helper process serves all. {shard} in a --probe-* stands for the
number. A shard whose COMMAND fails or is unhealthy goes to
another member, and this one leaves it alone for --cooldown, doubling. After a
signal each shard is stopped when another member is ready to run it; after one
lease the remaining ones are stopped, too. mandate shards NAME shows who owns
what. --once, --http, --succession and --max-term are for one election: they
are refused with --group.

With --http ADDR anyone who can reach that port can query the leader: load
balancers (GET /leader: 200 on the leader), dashboards, COMMAND itself. See
docs/http.md.

COMMAND is not in the terminal's foreground: reading from the terminal stops it,
which is logged.

Exit codes
  0         ended by a signal, after the lock was released (not with --once)
  N         with --once: COMMAND's own code, or 128+N when signal N killed it, or
            ended mandate before COMMAND ran
  8         ended by a signal; the lock was not released, because Redis was
            unreachable until the lock had lapsed, or until a second signal;
            with --group: the lock of a shard
  9         with --wait: not elected in time, because another candidate leads
  64        invalid flags or arguments
  69        permanent refusal by Redis (password, rights, key types), or the
            election is one of a group of shards (its name has a #)
  126, 127  COMMAND cannot be executed, was not found
  1         anything else`

const runExample = `  mandate run --election poller -- ./poller --batch 100

  # replace a leader that hangs: ./poller touches the file after every batch
  mandate run --election poller \
    --probe-file /run/poller.alive --probe-file-age 30s -- ./poller

  # three independent Redis servers, a majority decides
  mandate run --redis redis://a --redis redis://b --redis redis://c \
    --election backup -- ./backup

  # 16 shards, one ./worker for each, spread over all machines
  mandate run --group orders --shards 16 \
    --probe-file '/run/orders.{shard}.alive' -- ./worker`

func runCommand(c *connection) *cobra.Command {
	var o campaignFlags
	cmd := &cobra.Command{
		Use:     "run {--election NAME | --group NAME --shards N} [flags] -- COMMAND...",
		Short:   "Run a command only while leading",
		Long:    runHelp,
		Example: runExample,
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows COMMAND belongs to COMMAND
	f.SortFlags = false
	f.StringVar(&o.election, "election", "", "`NAME` that all candidates share (required, or --group)")
	o.group.add(cmd)
	c.duration(f, &o.lease, "lease", 10*time.Second, 50*time.Millisecond, "how long a lock lives unless renewed; the same for all candidates")
	c.duration(f, &o.grace, "grace", 0, 0, "time from SIGTERM to SIGKILL; must fit into the lease (default a fifth of it)")
	f.StringVar(&o.stopSignal, "stop-signal", "TERM", "the `SIGNAL` with which the command is stopped, and mandate itself, too: QUIT, INT, ...")
	f.BoolVar(&o.once, "once", false, "exit with the command's exit code when the command exits")
	c.duration(f, &o.wait, "wait", 0, 0, "with --once: exit with 9 if another candidate leads after this time, such as 0s (default: wait forever)")
	c.duration(f, &o.hold, "hold", 0, 0, "with --once: keep the lock for this time from the start of a command that succeeds")
	c.duration(f, &o.cooldown, "cooldown", 0, 0, "no campaign for this time after a probe failed; doubles with each consecutive failure (default the lease)")
	f.StringVar(&o.id, "id", "", "this candidate's name (default: host, process and a random part)")
	f.StringVar(&o.advertise, "advertise", "", "where the leader can be reached, shown by status (`ADDR` is free text)")
	o.http.add(f, "", "`ADDR` to report leadership on (GET /leader, /events, ...); without a host it is the loopback interface")
	o.succession.add(c.terminal, cmd)
	o.probeFlags.add(c.terminal, f)
	var j *job
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		helper, err := newHelper()
		if err != nil {
			return err
		}
		// If the electors were not made, they have not taken the pipe out of the environment.
		defer func() { _ = os.Unsetenv(supervisor.Variable) }()
		j, err = newJob(c, cmd, &o, args, helper)
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w, err := j.listen(cmd.Context(), o.http, j.grace)
		if err != nil {
			return err
		}
		j.http = w.url()
		// This is not part of the candidate's own log line. Arguments are left out: they may be
		// secrets.
		j.log.Info("command configured", "command", j.path, "grace", j.grace, "kill_time", j.kill, "once", j.once)
		if j.helper.Unmarked != nil && j.group.name != "" {
			j.log.Warn("a limit of file locks hides which shard's command has left a process: what one leaves may be killed with another's; "+
				"start mandate with ulimit -x unlimited (systemd: LimitLOCKS=infinity)", "error", j.helper.Unmarked)
		}
		return w.serveDuring(func() error { return j.result(j.campaign(cmd.Context(), w)) })
	}
	return cmd
}

// dispatch runs the helper if this process was started as one, and reports whether it did.
func dispatch() (was bool) { return supervise.Dispatch() }

// newHelper makes the pipe to the helper, before the electors are made: they report their terms on it. If
// this process is supervised itself, they report to its supervisor, which knows when all of its
// processes are gone.
func newHelper() (*supervise.Helper, error) {
	h, err := supervise.NewHelper()
	if _, supervised := os.LookupEnv(supervisor.Variable); err != nil || supervised {
		return h, err
	}
	name, err := h.Pipe()
	return h, errors.Join(err, os.Setenv(supervisor.Variable, name))
}

// campaign campaigns until a signal ends it, or with --once the end of the command.
func (j *job) campaign(ctx context.Context, w *web) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	j.stop = stop
	force, end := j.onSignals(j.interrupt, "the command is killed now", j.stopSignal)
	defer end()
	j.force = force
	campaigns := j.systemd()
	if err := j.helper.Begin(supervise.Setup{Path: j.path, Argv: j.argv, StopSignal: j.stopSignal, Nodes: j.opened, LogJSON: j.logFormat == "json"}); err != nil {
		return err
	}
	defer j.helper.Close()
	defer j.passSignals()()
	var working sync.RWMutex
	return untilForced(j.force, campaigns, &working, func() error {
		if j.member != nil {
			return j.runMember(ctx, during(&working, j.workOn))
		}
		return j.runElector(ctx, during(&working, w.untilPromisesLapse(j.work)))
	})
}

// runMember runs the member of the group until ctx ends.
func (j *job) runMember(ctx context.Context, work shard.Work) error {
	if err := j.member.Run(ctx, work); err != nil {
		return &exitError{code: codeOf(err), err: errors.New(strings.TrimPrefix(err.Error(), "shard: "))}
	}
	return nil
}

// runElector runs the elector until ctx ends, or the command is not run here.
func (j *job) runElector(ctx context.Context, work elector.Work) error {
	notElected := make(chan error, 1)
	if j.wait >= 0 {
		go j.awaitElected(notElected)
	}
	err := j.elector.Run(ctx, work)
	select {
	case why := <-notElected:
		return cmp.Or(err, why)
	default:
		return err
	}
}

// awaitElected ends the run if this candidate does not lead when its wait is over, and sends why. As long
// as no answer of Redis shows who leads, it waits for up to a lease more.
func (j *job) awaitElected(why chan<- error) {
	for began := time.Now(); j.decided.Load() == undecided; time.Sleep(10 * time.Millisecond) {
		leader, led := j.elector.LastLeader()
		waited := time.Since(began) - j.wait
		own := led && leader.Incarnation == j.elector.Incarnation() // its command is about to start
		if waited < 0 || own || !led && waited < j.lease || !j.decided.CompareAndSwap(undecided, givenUp) {
			continue
		}
		if led {
			j.connection.log.Info("command not run here", "leader", leader.Candidate)
		}
		err := &exitError{code: exitOtherLeads, quiet: led, err: errors.New("not elected, and no other candidate either: the command is not run here")}
		why <- cmp.Or(withCode(j.elector.Check()), error(err))
		j.stop()
	}
}

// during wraps work so that it holds the lock for reading while it runs.
func during[T any](working *sync.RWMutex, work func(context.Context, T) error) func(context.Context, T) error {
	return func(ctx context.Context, term T) error {
		working.RLock()
		defer working.RUnlock()
		return work(ctx, term)
	}
}

// newJob turns the flags into an elector, or a member of a group, and the job to run. It reports all
// problems with the flags at once; only a command that can't be run is reported alone, as a shell
// would.
func newJob(c *connection, cmd *cobra.Command, o *campaignFlags, args []string, helper *supervise.Helper) (*job, error) {
	f := cmd.Flags()
	grouped := o.ofGroup(c.terminal, f)
	checkCommand(c.terminal, cmd, args)
	cfg, grace, kill := o.config(c.terminal, f)
	o.shell = new(supervise.Prober).Probe
	o.probeFlags.configure(c.terminal, f, &cfg, grouped)
	for _, name := range []string{"wait", "hold"} {
		if f.Changed(name) && !o.once {
			c.problem("--%s is given without --once", name)
		}
	}
	if o.hold > 0 && len(o.work) > 0 {
		c.problem("--hold is given with --probe-*: these check the command, which has ended by then")
	}
	if !f.Changed("wait") {
		o.wait = -1
	}
	stopSignal := signalNamed(c.terminal, o.stopSignal)
	o.http.read(cmd.Context(), c.terminal)
	k, err := c.candidate(o, cfg, o.shardProbes(o.lease))
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, notStarted(args[0], err)
	}
	log := c.log.With("election", o.election)
	if grouped {
		log = c.log.With("group", o.group.name)
	}
	return &job{
		candidate: k, path: path, argv: args, once: o.once, election: o.election, group: o.group,
		wait: o.wait, hold: o.hold, stopSignal: stopSignal,
		lease: o.lease, grace: grace, kill: kill, log: log,
		helper: helper,
	}, nil
}

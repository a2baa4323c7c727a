package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

// campaignFlags are the flags of `mandate run` as they were given. `mandate serve` has some of
// them, too.
type campaignFlags struct {
	election, id, advertise string
	group                   groupFlags

	succession successionFlags

	lease, grace, cooldown time.Duration
	wait, hold             time.Duration
	once                   bool
	stopSignal             string

	probeFlags
	http httpFlags
}

// groupFlags select a member of a group of shards instead of a candidate of one election.
type groupFlags struct {
	name   string
	shards int
	weight float64
}

func (o *groupFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.name, "group", "", "instead of --election: the `NAME` of a group of shards, which all its members share")
	f.IntVar(&o.shards, "shards", 0, "with --group: how many shards it has, the same for all members")
	f.Float64Var(&o.weight, "weight", 1, "with --group: how many shards this member should own relative to the others")
}

// ofGroup reports whether the flags are for a member of a group, and records flags that do not fit
// together.
func (o *campaignFlags) ofGroup(t *terminal, f *pflag.FlagSet) bool {
	switch {
	case o.group.name != "" && o.election != "":
		t.problem("--election and --group are given: give --election for one leader, or --group for many shards")
	case o.group.name == "" && o.election == "":
		t.problem("--election is missing: give the name that all candidates of this election share (or --group, for many shards)")
	}
	if o.group.name == "" {
		for _, name := range []string{"shards", "weight"} {
			if f.Changed(name) {
				t.problem("--%s is given without --group: name the group of shards", name)
			}
		}
		return false
	}
	if !f.Changed("shards") {
		t.problem("--shards is missing: give how many shards the group has, the same for all its members")
		o.group.shards = 1
	}
	if o.group.weight == 0 { // in shard.Config zero means the default
		t.problem("--weight is 0: above 0 (a member that should own nothing need not run)")
		o.group.weight = 1
	}
	for _, name := range []string{"once", "succession", "priority", "max-term", "http", "http-token-file"} {
		if f.Changed(name) {
			t.problem("--%s is for one election: leave it out with --group", name)
		}
	}
	if f.Changed("cooldown") && o.cooldown == 0 {
		t.problem("--cooldown is 0: with --group a shard would return at once to where it failed; give a time")
		o.cooldown = o.lease
	}
	return true
}

// config is what run and serve configure alike. It divides the time that is left of the lease when the work must stop.
func (o *campaignFlags) config(t *terminal, f *pflag.FlagSet) (cfg elector.Config, grace, kill time.Duration) {
	grace, kill = o.stopTimes(t, f.Changed("grace"))
	cfg = elector.Config{
		Election: cmp.Or(o.election, "missing"), ID: o.id, Advertise: o.advertise, Lease: o.lease, StopMargin: grace + kill, Cooldown: o.cooldown,
	}
	if o.cooldown == 0 && f.Changed("cooldown") {
		cfg.Cooldown = -1 // none: for the library 0 is the default
	}
	o.succession.configure(t, &cfg)
	return cfg, grace, kill
}

// candidate is what run and serve campaign with.
type candidate struct {
	*connection

	elector *elector.Elector
	member  *shard.Member // of a group, instead of the elector
}

// candidate makes the quorum, and an elector on it or, with --group, a member of a group with one probe per shard's
// work. None does I/O. Problems with the URLs or the configuration are recorded, and returned as a usage error.
func (c *connection) candidate(o *campaignFlags, cfg elector.Config, work func(shard int) health.Probe) (k candidate, err error) {
	cfg.Logger = slog.New(withoutEnd{c.log.Handler()})
	k.connection, err = c, c.connect()
	switch {
	case err != nil:
		return k, err
	case o.group.name == "":
		k.elector, err = elector.New(c.quorum, cfg)
	default:
		k.member, err = shard.New(c.quorum, shard.Config{
			Group: o.group.name, Shards: o.group.shards, Weight: o.group.weight, ID: cfg.ID, Advertise: cfg.Advertise, Version: cfg.Version, Logger: cfg.Logger,
			Lease: cfg.Lease, StopMargin: cfg.StopMargin, Cooldown: cfg.Cooldown,
			Probe: cfg.Probe, ProbeSettings: cfg.ProbeSettings, WorkProbe: work, WorkProbeSettings: cfg.WorkProbeSettings,
		})
	}
	if err != nil {
		c.addProblems(err, c.flagFor)
	}
	return k, c.usage()
}

func (k *candidate) id() string {
	if k.member != nil {
		return k.member.ID()
	}
	return k.elector.ID()
}

// state is what systemctl status shows of a candidate, or member: one line.
func (k *candidate) state() string {
	if k.member != nil {
		return fmt.Sprintf("owns %d of %d shards", len(k.member.Owned()), k.member.Shards())
	}
	if err := k.elector.Check(); err != nil {
		return strings.ReplaceAll(err.Error(), "\n", " ")
	}
	if k.elector.IsLeader() {
		return fmt.Sprintf("leads, token %d", k.elector.Term().Token())
	}
	return "stands by"
}

// stopTimes divides the time that is left of the lease when the work must stop: first the grace,
// then the time that SIGKILL needs on a busy machine.
func (o *campaignFlags) stopTimes(t *terminal, graceGiven bool) (grace, kill time.Duration) {
	kill = killTime(o.lease)
	if !graceGiven {
		return o.lease / 5, kill
	}
	if most := (elector.Config{Lease: o.lease}).MaxStopMargin() - kill; o.grace > most {
		t.problem("--grace %v does not fit into --lease %v: SIGKILL must come before the lease ends, so use at most --grace %v, or a longer lease",
			o.grace, o.lease, max(0, most.Truncate(time.Millisecond)))
		return o.lease / 5, kill
	}
	return o.grace, kill
}

// killTime is the time allowed, on a busy machine, for the last processes of a group to die of
// SIGKILL and for the guard's report to arrive.
func killTime(lease time.Duration) time.Duration { return min(lease/10, time.Second) }

// successionFlags configure how the next leader is chosen.
type successionFlags struct {
	kind     string
	priority int
	maxTerm  time.Duration
	version  string // of the work
}

const race = "race"

func successions() []string {
	return []string{race, elector.SuccessionPriority, elector.SuccessionSeniority}
}

func (o *successionFlags) add(t *terminal, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.kind, "succession", race, "how the next leader is chosen: "+strings.Join(successions(), ", ")+"; the same for all candidates")
	complete(cmd, "succession", successions())
	f.IntVar(&o.priority, "priority", 0, "with --succession priority: the highest leads")
	t.duration(f, &o.maxTerm, "max-term", 0, time.Second, "hand over to another candidate after this time, at least a lease (default: no limit)")
	f.StringVar(&o.version, "work-version", "", "`VERSION` of the work: the newer one leads next with --succession seniority, or priority (env MANDATE_WORK_VERSION; default that of mandate)")
}

func (o *successionFlags) configure(t *terminal, cfg *elector.Config) {
	cfg.Priority, cfg.MaxTerm = o.priority, o.maxTerm
	if cfg.Version = o.version; cfg.Version == "" {
		cfg.Version = cmp.Or(t.variable("MANDATE_WORK_VERSION"), buildVersion())
	}
	switch {
	case !slices.Contains(successions(), o.kind):
		t.problem("--succession is %q: use one of %s", o.kind, strings.Join(successions(), ", "))
	case o.kind != race:
		cfg.Succession = o.kind
	}
}

// systemd returns a function that tells systemd that this process campaigns (Type=notify), and then, if
// the unit has a WatchdogSec, again and again that it runs, as long as state returns, which systemctl status
// shows. Commands do not inherit the variables for that, nor those of its sockets: they are for this process.
func (k *candidate) systemd() (campaigns func()) {
	socket := &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"}
	watchdog, _ := strconv.Atoi(os.Getenv("WATCHDOG_USEC"))
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "LISTEN_PIDFDID"} {
		_ = os.Unsetenv(name)
	}
	return func() {
		if socket.Name == "" {
			return
		}
		conn, err := net.DialUnix(socket.Net, nil, socket)
		if err == nil {
			_, err = conn.Write([]byte("READY=1"))
		}
		if err != nil {
			k.log.Warn("cannot notify systemd", "error", err)
			return
		}
		every := 5 * time.Second
		if watchdog > 0 {
			every = min(every, time.Duration(watchdog)*time.Microsecond/3)
		}
		for ; ; time.Sleep(every) {
			_, _ = conn.Write([]byte("WATCHDOG=1\nSTATUS=" + k.state()))
		}
	}
}

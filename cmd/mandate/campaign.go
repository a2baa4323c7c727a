package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
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

func (a *app) groupFlags(cmd *cobra.Command, o *groupFlags) {
	f := cmd.Flags()
	f.StringVar(&o.name, "group", "", "instead of --election: the `NAME` of a group of shards, which all its members share")
	f.IntVar(&o.shards, "shards", 0, "with --group: how many shards it has, the same for all members")
	f.Float64Var(&o.weight, "weight", 1, "with --group: how many shards this member should own relative to the others")
}

// ofGroup reports whether the flags are for a member of a group, and records flags that do not fit
// together.
func (a *app) ofGroup(f *pflag.FlagSet, o *campaignFlags) bool {
	switch {
	case o.group.name != "" && o.election != "":
		a.problem("--election and --group are given: give --election for one leader, or --group for many shards")
	case o.group.name == "" && o.election == "":
		a.problem("--election is missing: give the name that all candidates of this election share (or --group, for many shards)")
	}
	if o.group.name == "" {
		for _, name := range []string{"shards", "weight"} {
			if f.Changed(name) {
				a.problem("--%s is given without --group: name the group of shards", name)
			}
		}
		return false
	}
	if !f.Changed("shards") {
		a.problem("--shards is missing: give how many shards the group has, the same for all its members")
		o.group.shards = 1
	}
	if o.group.weight == 0 { // in shard.Config zero means the default
		a.problem("--weight is 0: above 0 (a member that should own nothing need not run)")
		o.group.weight = 1
	}
	for _, name := range []string{"once", "succession", "priority", "max-term", "no-lead", "http", "http-token-file"} {
		if f.Changed(name) {
			a.problem("--%s is for one election: leave it out with --group", name)
		}
	}
	if f.Changed("cooldown") && o.cooldown == 0 {
		a.problem("--cooldown is 0: with --group a shard would return at once to where it failed; give a time")
		o.cooldown = o.lease
	}
	return true
}

// config is what run and serve configure alike. It divides the time that is left of the lease when the work must stop.
func (a *app) config(f *pflag.FlagSet, o *campaignFlags) (cfg elector.Config, grace, kill time.Duration) {
	grace, kill = a.stopTimes(o, f.Changed("grace"))
	cfg = elector.Config{
		Election: cmp.Or(o.election, "missing"), ID: o.id, Advertise: o.advertise, Lease: o.lease, StopMargin: grace + kill, Cooldown: o.cooldown,
	}
	if o.cooldown == 0 && f.Changed("cooldown") {
		cfg.Cooldown = -1 // none: for the library 0 is the default
	}
	a.succession(&o.succession, &cfg)
	return cfg, grace, kill
}

// campaigner makes the quorum, and an elector on it or, with --group, a member of a group with one probe per shard's
// work. None does I/O. Problems with the URLs or the configuration are recorded, and returned as a usage error.
func (a *app) campaigner(o *campaignFlags, c elector.Config, work func(shard int) health.Probe) error {
	c.Logger = slog.New(withoutEnd{a.log.Handler()})
	err := a.connect()
	switch {
	case err != nil:
		return err
	case o.group.name == "":
		a.elector, err = elector.New(a.quorum, c)
	default:
		a.shardMember, err = shard.New(a.quorum, shard.Config{
			Group: o.group.name, Shards: o.group.shards, Weight: o.group.weight, ID: c.ID, Advertise: c.Advertise, Version: c.Version, Logger: c.Logger,
			Lease: c.Lease, StopMargin: c.StopMargin, Cooldown: c.Cooldown,
			Probe: c.Probe, ProbeSettings: c.ProbeSettings, WorkProbe: work, WorkProbeSettings: c.WorkProbeSettings,
		})
	}
	if err != nil {
		a.addProblems(err, a.flagFor)
	}
	return a.usage()
}

// campaignerID returns the id of the elector or the member.
func (a *app) campaignerID() string {
	if a.shardMember != nil {
		return a.shardMember.ID()
	}
	return a.elector.ID()
}

// runMember runs the member of the group until ctx ends.
func (a *app) runMember(ctx context.Context, work shard.Work) error {
	if err := a.shardMember.Run(ctx, work); err != nil {
		return &exitError{code: codeOf(err), err: errors.New(strings.TrimPrefix(err.Error(), "shard: "))}
	}
	return nil
}

// stopTimes divides the time that is left of the lease when the work must stop: first the grace,
// then the time that SIGKILL needs on a busy machine.
func (a *app) stopTimes(o *campaignFlags, graceGiven bool) (grace, kill time.Duration) {
	kill = killTime(o.lease)
	if !graceGiven {
		return o.lease / 5, kill
	}
	if most := (elector.Config{Lease: o.lease}).MaxStopMargin() - kill; o.grace > most {
		a.problem("--grace %v does not fit into --lease %v: SIGKILL must come before the lease ends, so use at most --grace %v, or a longer lease",
			o.grace, o.lease, max(0, most.Truncate(time.Millisecond)))
		return o.lease / 5, kill
	}
	return o.grace, kill
}

// killTime is the time allowed, on a busy machine, for the last processes of a group to die of
// SIGKILL and for the guard's report to arrive.
func killTime(lease time.Duration) time.Duration { return min(lease/10, time.Second) }

package main

import (
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

// attr returns the log attribute that names the election or the group.
func (o *campaignFlags) attr() slog.Attr {
	if o.group.name != "" {
		return slog.String("group", o.group.name)
	}
	return slog.String("election", o.election)
}

// campaigner makes an elector or, with --group, a member of a group.
func (a *app) campaigner(o *campaignFlags, cfg elector.Config, work func(shard int) health.Probe) error {
	if o.group.name != "" {
		return a.member(&o.group, cfg, work)
	}
	return a.candidate(cfg)
}

// campaignerID returns the id of the elector or the member.
func (a *app) campaignerID() string {
	if a.shardMember != nil {
		return a.shardMember.ID()
	}
	return a.elector.ID()
}

// member makes the quorum and a member of a group on it, as candidate does for an elector. It takes
// the settings of c, and one probe per shard's work.
func (a *app) member(o *groupFlags, c elector.Config, work func(shard int) health.Probe) error {
	err := a.connect()
	if err != nil {
		return err
	}
	a.shardMember, err = shard.New(a.quorum, shard.Config{
		Group: o.name, Shards: o.shards, Weight: o.weight, ID: c.ID, Advertise: c.Advertise, Version: c.Version, Logger: slog.New(withoutEnd{a.log.Handler()}),
		Lease: c.Lease, StopMargin: c.StopMargin, Cooldown: c.Cooldown,
		Probe: c.Probe, ProbeSettings: c.ProbeSettings, WorkProbe: work, WorkProbeSettings: c.WorkProbeSettings,
	})
	if err != nil {
		a.addProblems(err, a.flagFor)
	}
	return a.usage()
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

package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// probeFlags are the probes of a candidate and of its work, and the settings of all of them.
type probeFlags struct {
	work, candidate probeTargets

	interval, timeout, startGrace time.Duration
	failures                      int
}

// probeTargets are the probes of the candidate, or of its work.
type probeTargets struct {
	exec, http, tcp, file []string
	fileAge               time.Duration
}

func (p *probeTargets) given() bool { return len(p.exec)+len(p.http)+len(p.tcp)+len(p.file) > 0 }

func (a *app) probeFlags(f *pflag.FlagSet, o *probeFlags) {
	add := func(p *probeTargets, prefix, whom string) {
		f.StringArrayVar(&p.exec, prefix+"probe-exec", nil, whom+": shell `CMD` exits with 0")
		f.StringArrayVar(&p.http, prefix+"probe-http", nil, whom+": GET of `URL` answers 2xx")
	}
	add(&o.work, "", "while running")
	f.StringArrayVar(&o.work.tcp, "probe-tcp", nil, "while running: `ADDR` (host:port) accepts a connection")
	f.StringArrayVar(&o.work.file, "probe-file", nil, "while running: the file at `PATH` was touched recently")
	a.duration(f, &o.work.fileAge, "probe-file-age", 0, time.Millisecond, "how old that file may be (default the lease)")
	add(&o.candidate, "candidate-", "always")
	a.duration(f, &o.interval, "probe-interval", 0, time.Millisecond, "time between two runs of each probe, of both kinds (default 1s)")
	a.duration(f, &o.timeout, "probe-timeout", 0, time.Millisecond, "time limit of one run (default 1s)")
	f.IntVar(&o.failures, "probe-failures", 3, "consecutive failures until it counts as unhealthy")
	a.duration(f, &o.startGrace, "probe-start-grace", 0, 0, "ignore failures for this time after the command's start (default the lease)")
}

// shardPlace is the placeholder for the number of the shard in the target of a probe.
const shardPlace = "{shard}"

// of returns the targets of one shard.
func (p *probeTargets) of(shard int) *probeTargets {
	one := *p
	for _, list := range []*[]string{&one.exec, &one.http, &one.tcp, &one.file} {
		*list = ofShardNumber(*list, shard)
	}
	return &one
}

// ofShardNumber replaces the placeholder in targets by the number of a shard.
func ofShardNumber(targets []string, shard int) (all []string) {
	for _, target := range targets {
		all = append(all, strings.ReplaceAll(target, shardPlace, strconv.Itoa(shard)))
	}
	return all
}

// ofShards records targets that do not fit: a shard's without the placeholder, a member's with it.
func (a *app) ofShards(o *probeFlags) {
	check := func(prefix string, p *probeTargets, problem func(flag string)) {
		for _, of := range []struct {
			kind    string
			targets []string
		}{{"exec", p.exec}, {"http", p.http}, {"tcp", p.tcp}, {"file", p.file}} {
			if slices.ContainsFunc(of.targets, func(target string) bool { return strings.Contains(target, shardPlace) == (prefix != "") }) {
				problem("--" + prefix + "probe-" + of.kind)
			}
		}
	}
	check("", &o.work, func(flag string) {
		a.problem("%s has no %s in it, so that all shards would fail together: write it for the shard's number, or use --candidate%s for the member", flag, shardPlace, flag[1:])
	})
	check("candidate-", &o.candidate, func(flag string) {
		a.problem("%s has %s in it, but it checks the member: use --%s for each shard", flag, shardPlace, strings.TrimPrefix(flag, "--candidate-"))
	})
}

// shardProbes returns the probe of each shard's work, or nil if none was given.
func (o *probeFlags) shardProbes(lease time.Duration) func(shard int) health.Probe {
	if !o.work.given() {
		return nil
	}
	return func(shard int) health.Probe {
		probe, _ := o.work.of(shard).all(lease) // the targets of shard 0 were checked by probes
		return probe
	}
}

// probes sets the probes of cfg, whose lease is set already. With a group the probe of the work is
// that of shard 0.
func (a *app) probes(f *pflag.FlagSet, o *probeFlags, cfg *elector.Config, grouped bool) {
	work := &o.work
	if grouped {
		a.ofShards(o)
		work = o.work.of(0)
	}
	if f.Changed("probe-file-age") && len(o.work.file) == 0 {
		a.problem("--probe-file-age is given without --probe-file: name the file")
	}
	settings := a.probeSettings(o)
	if !o.work.given() && !o.candidate.given() {
		for _, name := range []string{"probe-interval", "probe-timeout", "probe-failures"} {
			if f.Changed(name) {
				a.problem("--%s is given, but there is no probe: add one of the --probe-* or --candidate-probe-* flags", name)
			}
		}
	}
	if (health.Settings{StartGrace: o.startGrace}).Validate() != nil {
		a.problem("--probe-start-grace is %v: give at least 1ms and at most %v, or 0", o.startGrace, health.MaxTime)
		o.startGrace = 0
	}
	cfg.Probe = a.all("candidate-", &o.candidate, cfg.Lease)
	cfg.WorkProbe = a.all("", work, cfg.Lease)
	cfg.ProbeSettings, cfg.WorkProbeSettings = settings, settings
	cfg.WorkProbeSettings.StartGrace = o.startGrace
	if !f.Changed("probe-start-grace") {
		cfg.WorkProbeSettings.StartGrace = min(cfg.Lease, health.MaxTime)
	} else if !o.work.given() {
		a.problem("--probe-start-grace is given, but there is no probe of the command: add one of the --probe-* flags")
	}
}

// probeSettings returns the settings of all probes. Settings that the library refuses are reported
// under the names of the flags.
func (a *app) probeSettings(o *probeFlags) health.Settings {
	s := health.Settings{Interval: o.interval, Timeout: o.timeout, Failures: o.failures}
	if o.failures < 1 {
		a.problem("--probe-failures is %d: give 1 or more", o.failures)
		s.Failures = 1
	}
	if s.Validate() != nil {
		d := s.WithDefaults()
		a.problem("--probe-failures x (--probe-interval + --probe-timeout) = %d x (%v + %v): at most %d failures, and together at most %v",
			d.Failures, d.Interval, d.Timeout, health.MaxCount, health.MaxTime)
		return health.Settings{}
	}
	return s
}

// targetProblem describes what is wrong with the URL or the address of a probe, without the names of
// the package and the function.
func targetProblem(err error) string {
	_, problem, _ := strings.Cut(err.Error(), " probe: ")
	return problem
}

// all combines the given probes into one, and records what is wrong with them.
func (a *app) all(prefix string, p *probeTargets, lease time.Duration) health.Probe {
	probe, problems := p.all(lease)
	for _, problem := range problems {
		a.problem("--%s%s", prefix, problem)
	}
	return probe
}

// all combines the given probes into one, or returns nil if there are none. Each probe is named
// after its flag, which then appears in the reason of a step-down.
func (p *probeTargets) all(lease time.Duration) (probe health.Probe, problems []string) {
	var probes []health.Probe
	add := func(flag string, probe health.Probe, err error) {
		if err != nil {
			problems = append(problems, flag+": "+targetProblem(err))
			return
		}
		probes = append(probes, health.Named(flag, probe))
	}
	for _, cmd := range p.exec {
		if cmd == "" {
			problems = append(problems, "probe-exec is empty: give a shell command that exits with 0 when all is well")
			continue
		}
		add("probe-exec", health.Command("sh", "-c", cmd), nil)
	}
	for _, url := range p.http {
		probe, err := health.HTTP(url)
		add("probe-http", probe, err)
	}
	for _, addr := range p.tcp {
		probe, err := health.TCP(addr)
		add("probe-tcp", probe, err)
	}
	for _, path := range p.file {
		if path == "" {
			problems = append(problems, "probe-file is empty: name the file")
			continue
		}
		add("probe-file", health.FileAge(path, cmp.Or(p.fileAge, lease)), nil)
	}
	if len(probes) == 0 {
		return nil, problems
	}
	return health.All(probes...), problems
}

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

	fileAge                       time.Duration
	interval, timeout, startGrace time.Duration
	failures                      int

	shell func(script string) health.Probe // runs a shell command
}

// probeTargets are what the probes of the candidate, or of its work, look at.
type probeTargets []probeTarget

// probeTarget was given with a flag. Its kind is exec, http, tcp or file.
type probeTarget struct{ flag, kind, target string }

// flag adds a flag for targets of one kind, which may be repeated.
func (p *probeTargets) flag(f *pflag.FlagSet, prefix, flag, kind, usage string) {
	f.Func(prefix+flag, usage, func(target string) error {
		*p = append(*p, probeTarget{flag, kind, target})
		return nil
	})
}

func (o *probeFlags) add(t *terminal, f *pflag.FlagSet) {
	for _, p := range []struct {
		prefix, whom string
		to           *probeTargets
	}{{"", "while running", &o.work}, {"candidate-", "always", &o.candidate}} {
		p.to.flag(f, p.prefix, "probe-exec", "exec", p.whom+": shell `CMD` exits with 0")
		p.to.flag(f, p.prefix, "probe-http", "http", p.whom+": GET of `URL` answers 2xx")
		if p.to == &o.work {
			p.to.flag(f, "", "probe-tcp", "tcp", "while running: `ADDR` (host:port) accepts a connection")
			p.to.flag(f, "", "probe-file", "file", "while running: the file at `PATH` was touched recently")
			t.duration(f, &o.fileAge, "probe-file-age", 0, time.Millisecond, "how old that file may be (default the lease)")
		}
	}
	t.duration(f, &o.interval, "probe-interval", 0, time.Millisecond, "time between two runs of each probe, of both kinds (default 1s)")
	t.duration(f, &o.timeout, "probe-timeout", 0, time.Millisecond, "time limit of one run (default 1s)")
	f.IntVar(&o.failures, "probe-failures", 3, "consecutive failures until it counts as unhealthy")
	t.duration(f, &o.startGrace, "probe-start-grace", 0, 0, "ignore failures for this time after the command's start (default the lease)")
}

// shardPlace is the placeholder for the number of the shard in the target of a probe.
const shardPlace = "{shard}"

// of returns the targets of one shard.
func (p probeTargets) of(shard int) (all probeTargets) {
	for _, t := range p {
		all = append(all, probeTarget{t.flag, t.kind, strings.ReplaceAll(t.target, shardPlace, strconv.Itoa(shard))})
	}
	return all
}

// ofShards records targets that do not fit: a shard's without the placeholder, a member's with it.
func (o *probeFlags) ofShards(t *terminal) {
	for _, p := range o.work {
		if !strings.Contains(p.target, shardPlace) {
			t.problem("--probe-%s has no %s in it, so that all shards would fail together: write it for the shard's number; --candidate-probe-* are for the member", p.kind, shardPlace)
		}
	}
	for _, p := range o.candidate {
		if strings.Contains(p.target, shardPlace) {
			t.problem("--candidate-probe-%s has %s in it, but it checks the member: use --probe-%s for each shard", p.kind, shardPlace, p.kind)
		}
	}
}

// shardProbes returns the probe of each shard's work, or nil if none was given.
func (o *probeFlags) shardProbes(lease time.Duration) func(shard int) health.Probe {
	if len(o.work) == 0 {
		return nil
	}
	return func(shard int) health.Probe {
		probe, _ := o.all(o.work.of(shard), cmp.Or(o.fileAge, lease)) // the targets of shard 0 were checked by configure
		return probe
	}
}

// configure sets the probes of cfg, whose lease is set already. With a group the probe of the work is
// that of shard 0.
func (o *probeFlags) configure(t *terminal, f *pflag.FlagSet, cfg *elector.Config, grouped bool) {
	work := o.work
	if grouped {
		o.ofShards(t)
		work = o.work.of(0)
	}
	if f.Changed("probe-file-age") && !slices.ContainsFunc(work, func(p probeTarget) bool { return p.kind == "file" }) {
		t.problem("--probe-file-age is given without --probe-file: name the file")
	}
	settings := o.settings(t)
	if len(o.work)+len(o.candidate) == 0 {
		for _, name := range []string{"probe-interval", "probe-timeout", "probe-failures"} {
			if f.Changed(name) {
				t.problem("--%s is given, but there is no probe: add one of the --probe-* or --candidate-probe-* flags", name)
			}
		}
	}
	if (health.Settings{StartGrace: o.startGrace}).Validate() != nil {
		t.problem("--probe-start-grace is %v: give at least 1ms and at most %v, or 0", o.startGrace, health.MaxTime)
		o.startGrace = 0
	}
	cfg.Probe = o.checked(t, "candidate-", o.candidate, 0)
	cfg.WorkProbe = o.checked(t, "", work, cmp.Or(o.fileAge, cfg.Lease))
	cfg.ProbeSettings, cfg.WorkProbeSettings = settings, settings
	cfg.WorkProbeSettings.StartGrace = o.startGrace
	if !f.Changed("probe-start-grace") {
		cfg.WorkProbeSettings.StartGrace = min(cfg.Lease, health.MaxTime)
	} else if len(o.work) == 0 {
		t.problem("--probe-start-grace is given, but there is no probe of the command: add one of the --probe-* flags")
	}
}

// settings returns the settings of all probes. Settings that the library refuses are reported
// under the names of the flags.
func (o *probeFlags) settings(t *terminal) health.Settings {
	s := health.Settings{Interval: o.interval, Timeout: o.timeout, Failures: o.failures}
	if o.failures < 1 {
		t.problem("--probe-failures is %d: give 1 or more", o.failures)
		s.Failures = 1
	}
	if s.Validate() != nil {
		d := s.WithDefaults()
		t.problem("--probe-failures x (--probe-interval + --probe-timeout) = %d x (%v + %v): at most %d failures, and together at most %v",
			d.Failures, d.Interval, d.Timeout, health.MaxCount, health.MaxTime)
		return health.Settings{}
	}
	return s
}

// checked combines the probes into one, and records what is wrong with them.
func (o *probeFlags) checked(t *terminal, prefix string, p probeTargets, fileAge time.Duration) health.Probe {
	probe, problems := o.all(p, fileAge)
	for _, problem := range problems {
		t.problem("--%s%s", prefix, problem)
	}
	return probe
}

// all combines the probes into one, or returns nil if there are none. Each probe is named
// after its flag, which then appears in the reason of a step-down.
func (o *probeFlags) all(p probeTargets, fileAge time.Duration) (probe health.Probe, problems []string) {
	var probes []health.Probe
	for _, t := range p {
		var one health.Probe
		var err error
		switch {
		case t.kind == "http":
			one, err = health.HTTP(t.target)
		case t.kind == "tcp":
			one, err = health.TCP(t.target)
		case t.target == "":
			problems = append(problems, t.flag+" is empty: give the shell command, or the file")
			continue
		case t.kind == "exec":
			one = o.shell(t.target)
		default:
			one = health.FileAge(t.target, fileAge)
		}
		if err != nil {
			// the error begins with the package and the function
			_, problem, _ := strings.Cut(err.Error(), " probe: ")
			problems = append(problems, t.flag+": "+problem)
			continue
		}
		probes = append(probes, health.Named(t.flag, one))
	}
	if len(probes) == 0 {
		return nil, problems
	}
	return health.All(probes...), problems
}

package main

import (
	"context"
	"time"

	"github.com/spf13/pflag"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// warmFlags configure how a candidate gets ready to lead before a planned handover.
type warmFlags struct {
	how     string // a shell command, or a URL
	timeout time.Duration
}

func (a *app) warmFlags(f *pflag.FlagSet, o *warmFlags, name, usage string) {
	f.StringVar(&o.how, name, "", usage+" before this candidate takes over as planned; all candidates need it, and a --succession")
	a.duration(f, &o.timeout, "warm-timeout", 0, 0, "how long this candidate, as the leader, waits for the next one to be warm (default the lease)")
}

// warm sets the fields for warming in cfg, whose succession is set already. probe makes a probe of
// the text given.
func (a *app) warm(f *pflag.FlagSet, o *warmFlags, cfg *elector.Config, name string, probe func(string) (health.Probe, error)) {
	cfg.WarmTimeout = orNone(o.timeout, f.Changed("warm-timeout"))
	switch {
	case !f.Changed(name) && f.Changed("warm-timeout"):
		a.problem("--warm-timeout is given without --%s: give what warms a candidate", name)
	case !f.Changed(name):
	case o.how == "":
		a.problem("--%s is empty: give what warms a candidate, or leave it out", name)
	case cfg.Succession == elector.SuccessionRace:
		a.problem("--%s with --succession race: no candidate is named to lead next, so none could get warm; use another succession for all candidates", name)
	default:
		p, err := probe(o.how)
		if err != nil {
			a.problem("--%s: %s", name, targetProblem(err))
			return
		}
		p = health.Named(name, p)
		cfg.Warm = func(ctx context.Context) error { return p.Check(ctx) }
	}
}

// shellCommand returns a probe that runs a shell command.
func shellCommand(cmd string) (health.Probe, error) { return health.Command("sh", "-c", cmd), nil }

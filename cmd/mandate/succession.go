package main

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

// successionFlags say who leads after whom.
type successionFlags struct {
	kind     string
	priority int
	maxTerm  time.Duration
}

const race = "race"

func successions() []string {
	return []string{race, string(elector.SuccessionPriority), string(elector.SuccessionSeniority), string(elector.SuccessionRotation)}
}

func (a *app) successionFlags(cmd *cobra.Command, o *successionFlags) {
	f := cmd.Flags()
	f.StringVar(&o.kind, "succession", race, "how the next leader is chosen: "+strings.Join(successions(), ", ")+"; the same for all candidates")
	complete(cmd, "succession", successions())
	f.IntVar(&o.priority, "priority", 0, "with --succession priority: the highest leads")
	a.duration(f, &o.maxTerm, "max-term", 0, time.Second, "hand over to another candidate after this time (default: no limit)")
}

func (a *app) succeed(o *successionFlags, cfg *elector.Config) {
	cfg.Priority, cfg.MaxTerm = o.priority, o.maxTerm
	switch {
	case !slices.Contains(successions(), o.kind):
		a.problem("--succession is %q: use one of %s", o.kind, strings.Join(successions(), ", "))
	case o.priority != 0 && o.kind != string(elector.SuccessionPriority):
		a.problem("--priority %d does nothing with --succession %s: use --succession priority for all candidates, or leave --priority out", o.priority, o.kind)
	case o.kind != race:
		cfg.Succession = elector.Succession(o.kind)
	}
}

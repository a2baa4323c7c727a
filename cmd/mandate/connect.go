package main

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

// connect makes the quorum, without I/O. Problems with the URLs are recorded.
func (a *app) connect() error {
	urls := a.urls()
	q, err := elector.Open(urls...)
	if err != nil {
		a.addProblems(err, func(setting string) string {
			if n, ok := strings.CutPrefix(setting, "URL "); ok {
				return a.urlsFrom + ", URL " + n
			}
			return a.flagFor(setting)
		})
		// Open the default quorum, so that the rest of the configuration is checked, too.
		if q, err = elector.Open(defaultRedis); err != nil {
			return err
		}
	}
	a.quorum, a.opened = q.Namespace(a.prefix), urls
	return nil
}

// choosePrefix takes the prefix from the flag or from the environment.
func (a *app) choosePrefix() {
	a.prefixFrom = "--prefix"
	if a.prefix == "" {
		a.prefix, a.prefixFrom = cmp.Or(os.Getenv("MANDATE_PREFIX"), defaultPrefix), "MANDATE_PREFIX"
	}
}

// candidate makes the quorum and an elector on it; neither does I/O. Problems with the URLs or the
// configuration are recorded, and returned as a usage error.
func (a *app) candidate(cfg elector.Config) error {
	cfg.Logger = a.log
	err := a.connect()
	if err != nil {
		return err
	}
	if a.elector, err = elector.New(a.quorum, cfg); err != nil {
		a.addProblems(err, a.flagFor)
	}
	return a.usage()
}

// close closes what parsing the command line has made, and then flushes the log.
func (a *app) close() {
	defer a.flushLogs()
	if a.quorum != nil {
		_ = a.quorum.Close()
	}
}

// anyElection is the name that is opened for a command on no single election. Opening it reveals
// what is wrong with the prefix and the other settings.
const anyElection = "any"

// openElection is the PreRunE of a command on one election, which its only argument names.
func (a *app) openElection(_ *cobra.Command, args []string) error {
	name := anyElection
	if len(args) == 1 {
		name = args[0]
	} else {
		a.problem("%d arguments given: give the name of one election", len(args))
	}
	return a.open(name)
}

// openQuorum is openElection for a command on no single election.
func (a *app) openQuorum(*cobra.Command, []string) error { return a.open(anyElection) }

func (a *app) open(name string) error {
	err := a.connect()
	if err != nil {
		return err
	}
	if a.election, err = a.quorum.Election(name); err != nil {
		a.addProblems(err, func(setting string) string {
			if setting == "Election" {
				return "NAME"
			}
			return a.flagFor(setting)
		})
	}
	return a.usage()
}

// onElection makes the RunE of a command on one election, to be used with openElection.
func (a *app) onElection(do func(context.Context, *elector.Election) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error { return do(cmd.Context(), a.election) }
}

// addProblems records the problems in an error of the library. names returns the flag for a
// setting.
func (a *app) addProblems(err error, names func(setting string) string) {
	switch err := err.(type) { //nolint:errorlint // each error of a joined one
	case *elector.ConfigError:
		for _, line := range err.Problems(names) {
			// Each of several elections has the same problem with the prefix.
			if !slices.Contains(a.problems, line) {
				a.problems = append(a.problems, line)
			}
		}
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			a.addProblems(one, names)
		}
	default:
		a.problem("%s", elector.Problem(err))
	}
}

// flagFor returns the flag for a setting of the library, or what else has set it.
func (a *app) flagFor(setting string) string {
	switch setting {
	case "Prefix":
		return a.prefixFrom
	case "Election", "ID", "Advertise", "Lease", "Cooldown", "Group", "Shards", "Weight":
		return "--" + strings.ToLower(setting)
	case "Version":
		return "--work-version"
	case "MaxTerm":
		return "--max-term"
	}
	return setting
}

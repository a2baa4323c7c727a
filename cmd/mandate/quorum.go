package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

// holdsTwo finds the list of MANDATE_REDIS where one URL belongs. go-redis would
// take its second half for a database.
func holdsTwo(url string) bool {
	_, rest, comma := strings.Cut(url, ",")
	return comma && strings.Contains(rest, "://")
}

// connect makes the quorum, without I/O. What is wrong with the URLs is added to the
// problems.
func (a *app) connect() error {
	urls := a.urls()
	if i := slices.IndexFunc(urls, holdsTwo); i >= 0 {
		a.problem("--redis, URL %d: these are several: repeat --redis for each node, or set MANDATE_REDIS to the list", i+1)
		urls = []string{defaultRedis} // so that the rest is looked at all the same
	}
	a.warnExposed(urls)
	q, err := elector.Open(urls...)
	if err != nil {
		a.addProblems(err, "elector: quorum: ", strings.NewReplacer("URL ", "--redis, URL ", "client ", "--redis, number "))
		// Another quorum, so that the configuration is looked at all the same.
		if q, err = elector.Open(defaultRedis); err != nil {
			return err
		}
	}
	a.quorum = q.Namespace(a.prefix)
	return nil
}

// candidate makes the quorum and an elector on it; neither does I/O. What is
// wrong with the URLs or the configuration is added to the problems, and the
// usage error returned.
func (a *app) candidate(cfg elector.Config, names *strings.Replacer) error {
	cfg.Logger, cfg.Version = a.log, buildVersion()
	err := a.connect()
	if err != nil {
		return err
	}
	if a.elector, err = elector.New(a.quorum, cfg); err != nil {
		a.addProblems(err, "elector: config: ", names)
	}
	return a.usage()
}

// close ends what candidate has made, and then the log.
func (a *app) close() {
	defer a.flushLogs()
	if a.quorum != nil {
		_ = a.quorum.Close()
	}
}

// observer is the PreRunE of a command that only looks at an election, or steers
// it: its only argument names it.
func (a *app) observer(_ *cobra.Command, args []string) error {
	name := anyElection // so that the rest is looked at all the same
	if len(args) == 1 {
		name = args[0]
	} else {
		a.problem("%d arguments given: give the name of one election", len(args))
	}
	err := a.connect()
	if err != nil {
		return err
	}
	if a.election, err = a.quorum.Election(name); err != nil {
		a.addProblems(err, "elector: ", strings.NewReplacer("Election is", "NAME is", "Prefix is", "--prefix is"))
	}
	return a.usage()
}

// anyElection stands for the name where no single election is looked at.
const anyElection = "any"

// observerOfAll is observer for the commands that look at no single election.
func (a *app) observerOfAll(cmd *cobra.Command, _ []string) error {
	return a.observer(cmd, []string{anyElection})
}

// onElection makes the RunE of a command about one election, after observer.
func (a *app) onElection(do func(context.Context, *elector.Election) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		err := do(cmd.Context(), a.election)
		if errors.Is(err, elector.ErrUnreachable) {
			return unreachable(err)
		}
		return err
	}
}

// unreachable says what every node said.
func unreachable(err error) error { return &exitError{code: exitUnreachable, err: aboutNodes(err)} }

// addProblems takes the lines of an error of the library, and calls things by
// the names of our flags.
func (a *app) addProblems(err error, prefix string, names *strings.Replacer) {
	for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), prefix), "\n") {
		// Two settings of the library may be one flag of ours.
		if line = names.Replace(line); !slices.Contains(a.problems, line) {
			a.problems = append(a.problems, line)
		}
	}
}

package main

import (
	"context"
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
		urls = []string{defaultRedis} // so that the rest is checked, too
	}
	a.warnExposed(urls)
	q, err := elector.Open(urls...)
	if err != nil {
		a.addProblems(err, "elector: quorum: ", strings.NewReplacer("URL ", "--redis, URL ", "client ", "--redis, number "))
		// Another quorum, so that the configuration is checked, too.
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

// close ends what reading the command line has made, and then the log.
func (a *app) close() {
	defer a.flushLogs()
	if a.quorum != nil {
		_ = a.quorum.Close()
	}
}

// anyElection stands for the name where no single election is meant: it shows what is wrong
// with the prefix, and with everything else that is to be reported at once.
const anyElection = "any"

// openElection is the PreRunE of a command about one election: its only argument names it.
func (a *app) openElection(_ *cobra.Command, args []string) error {
	name := anyElection
	if len(args) == 1 {
		name = args[0]
	} else {
		a.problem("%d arguments given: give the name of one election", len(args))
	}
	return a.open(name)
}

// openQuorum is openElection for a command about no single election.
func (a *app) openQuorum(*cobra.Command, []string) error { return a.open(anyElection) }

func (a *app) open(name string) error {
	err := a.connect()
	if err != nil {
		return err
	}
	if a.election, err = a.quorum.Election(name); err != nil {
		a.addProblems(err, "elector: ", strings.NewReplacer("Election is", "NAME is", "Prefix is", "--prefix is"))
	}
	return a.usage()
}

// onElection makes the RunE of a command about one election, after openElection.
func (a *app) onElection(do func(context.Context, *elector.Election) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error { return do(cmd.Context(), a.election) }
}

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

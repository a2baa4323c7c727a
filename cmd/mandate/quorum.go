package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

// urls are the Redis URLs, from the flag or else from the environment.
func (a *app) urls() []string {
	if len(a.redis) > 0 {
		return a.redis
	}
	var urls []string
	for u := range strings.SplitSeq(os.Getenv("MANDATE_REDIS"), ",") {
		if u = strings.TrimSpace(u); u != "" {
			urls = append(urls, u)
		}
	}
	if len(urls) == 0 {
		urls = []string{defaultRedis}
	}
	return urls
}

// holdsTwo finds the list of MANDATE_REDIS where one URL belongs. go-redis would
// take its second half for a database.
func holdsTwo(url string) bool {
	_, rest, comma := strings.Cut(url, ",")
	return comma && strings.Contains(rest, "://")
}

// candidate makes the quorum and an elector on it; neither does I/O. What is
// wrong with the URLs or the configuration is added to the problems, and the
// usage error returned.
func (a *app) candidate(cfg elector.Config, names *strings.Replacer) (*elector.Quorum, *elector.Elector, error) {
	cfg.Prefix, cfg.Logger, cfg.Version = a.prefix, a.log, buildVersion()
	urls := a.urls()
	if i := slices.IndexFunc(urls, holdsTwo); i >= 0 {
		a.problem("--redis, URL %d: these are several: repeat --redis for each node, or set MANDATE_REDIS to the list", i+1)
		urls = []string{defaultRedis} // so that the rest is looked at all the same
	}
	q, err := elector.Open(urls...)
	if err != nil {
		a.addProblems(err, "elector: quorum: ", strings.NewReplacer("URL ", "--redis, URL ", "client ", "--redis, number "))
		// Another quorum, so that the configuration is looked at all the same.
		if q, err = elector.Open(defaultRedis); err != nil {
			return nil, nil, err
		}
	}
	e, err := elector.New(q, cfg)
	if err != nil {
		a.addProblems(err, "elector: config: ", names)
	}
	if err := a.usage(); err != nil {
		_ = q.Close()
		return nil, nil, err
	}
	return q, e, nil
}

// observer is candidate for the commands that only look at an election, or
// steer it.
func (a *app) observer(name string) (*elector.Quorum, *elector.Elector, error) {
	return a.candidate(elector.Config{Election: name}, strings.NewReplacer("Election is", "NAME is", "Prefix is", "--prefix is"))
}

// anyElection stands for the name where no single election is looked at.
const anyElection = "any"

// quorum is observer for the commands that look at no single election.
func (a *app) quorum() (*elector.Quorum, error) {
	q, _, err := a.observer(anyElection)
	return q, err
}

// oneName is the election that the arguments name.
func (a *app) oneName(args []string) string {
	if len(args) != 1 {
		a.problem("%d arguments given: give the name of one election", len(args))
		return anyElection // so that the rest is looked at all the same
	}
	return args[0]
}

// onElection makes the RunE of a command about one election, which its only
// argument names: do gets a quorum that is open while it runs.
func (a *app) onElection(do func(ctx context.Context, q *elector.Quorum, name string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		name := a.oneName(args)
		q, _, err := a.observer(name)
		if err != nil {
			return err
		}
		defer func() { _ = q.Close() }()
		err = do(cmd.Context(), q, name)
		if errors.Is(err, elector.ErrUnreachable) {
			return unreachable(err)
		}
		return err
	}
}

// unreachable says without the name of the package what every node said.
func unreachable(err error) error {
	return &exitError{code: exitUnreachable, err: errors.New(strings.TrimPrefix(err.Error(), "elector: "))}
}

// addProblems takes the lines of an error of the library, and calls things by
// the names of our flags.
func (a *app) addProblems(err error, prefix string, names *strings.Replacer) {
	for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), prefix), "\n") {
		a.problems = append(a.problems, names.Replace(line))
	}
}

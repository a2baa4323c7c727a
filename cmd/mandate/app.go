package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/logqueue"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// app is what all commands share: the global flags, and where output goes.
type app struct {
	stdout, stderr io.Writer

	redis      []string
	access     accessFlags
	contexts   contextFlags
	urlsFrom   string // the flag, variable, file or context that lists the URLs
	prefix     string
	prefixFrom string // what has set it
	logLevel   string
	logFormat  string
	utc        bool

	log      *slog.Logger
	logs     *logqueue.Queue // of the commands that run for long; stderr then goes through it, too
	problems []string        // found while flags were read
	given    nextFlags       // what another command needs to work on the same elections
	helpErr  error           // help was requested for what doesn't exist

	// What the command line works on; reading it makes them.
	quorum   *elector.Quorum
	opened   []string            // its URLs, which may hold passwords
	releaser *supervise.Releaser // its pipe is the elector's, too, and stays open
	election *elector.Election   // of a command about one election
	elector  *elector.Elector    // of a candidate

	shardMember *shard.Member // of a group
}

const (
	defaultRedis  = "redis://127.0.0.1:6379"
	defaultPrefix = "mandate"
)

// problem notes something that is wrong with the command line.
func (a *app) problem(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// usage is all problems as one error, nil when there are none.
func (a *app) usage() error {
	if len(a.problems) == 0 {
		return nil
	}
	return &usageError{a.problems}
}

// accessFlags are the files that let mandate into Redis. Those beside the list of
// URLs become parameters of each URL that does not name its own.
type accessFlags struct {
	urls                    string
	password, ca, cert, key string
}

// contextFlags choose a named Redis, or several, from a file.
type contextFlags struct {
	name, file string

	chosen *redisContext // nil: the flags and the environment have all
}

// nextFlags are the flags of this command line that choose the elections, as they can be
// typed after another command, which would act on another Redis without them.
type nextFlags string

// redisContext is one of them, under the names of the flags.
type redisContext struct {
	Redis        []string `yaml:"redis"`
	RedisFile    string   `yaml:"redis-file"`
	PasswordFile string   `yaml:"redis-password-file"`
	CA           string   `yaml:"redis-ca"`
	Cert         string   `yaml:"redis-cert"`
	Key          string   `yaml:"redis-key"`
	Prefix       string   `yaml:"prefix"`
}

func (c *redisContext) holdsPassword() bool {
	return slices.ContainsFunc(c.Redis, func(raw string) bool {
		u, err := url.Parse(raw)
		if err != nil {
			return true // it may
		}
		_, has := u.User.Password()
		return has || u.Query().Has("password")
	})
}

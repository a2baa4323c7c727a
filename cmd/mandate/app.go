package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// app holds what all commands share: the global flags, and where output goes.
type app struct {
	args           []string // as typed; they may hold passwords
	stdout, stderr io.Writer

	redis      []string
	urlsFrom   string // the flag or variable that lists the URLs
	prefix     string
	prefixFrom string // the flag or variable that set prefix
	logLevel   string
	logFormat  string

	log      *slog.Logger
	logs     *logQueue // of long-running commands, whose stderr also goes through it
	problems []string  // found while parsing flags
	given    nextFlags // the flags that another command needs to work on the same elections

	// The objects of this command line, made while it is parsed.
	quorum   *elector.Quorum
	opened   []string          // the URLs of quorum, which may hold passwords
	election *elector.Election // of a command on one election
	elector  *elector.Elector  // of a candidate

	shardMember *shard.Member // of a group
}

const (
	defaultRedis  = "redis://127.0.0.1:6379"
	defaultPrefix = "mandate"
)

func (a *app) problem(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// usage returns all recorded problems as one error, or nil if there are none.
func (a *app) usage() error {
	if len(a.problems) == 0 {
		return nil
	}
	return &usageError{a.problems}
}

// nextFlags are the flags of this command line that choose the elections, ready to be appended to a
// suggested command, which without them would act on another Redis.
type nextFlags string

// holdPassword reports whether one of the URLs holds a password.
func holdPassword(urls []string) bool {
	return slices.ContainsFunc(urls, func(raw string) bool {
		u, err := parseAddress(raw)
		if err != nil {
			return true // the password may be in the part that cannot be parsed
		}
		_, has := u.User.Password()
		return has || u.Query().Has("password")
	})
}

// command returns a mandate command to type next, for the same elections. All commands that are
// suggested to operators are made here.
func (f nextFlags) command(verb string, args ...string) string {
	text := "mandate " + verb
	for _, arg := range args {
		text += " " + shellWord(arg)
	}
	return text + string(f)
}

// shellWord quotes a word for the shell if necessary.
func shellWord(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@%+-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// givenFlags returns the flags of this command line that choose the elections. Environment
// variables also apply to the next command. If a URL holds a password, one placeholder stands for all:
// without it the command would act on the Redis of the environment.
func (a *app) givenFlags(flags *pflag.FlagSet) nextFlags {
	text := ""
	if f := flags.Lookup("prefix"); f != nil && f.Changed {
		text += " --prefix " + shellWord(a.prefix)
	}
	if len(a.redis) == 0 {
		return nextFlags(text)
	}
	urls := splitURLs(strings.Join(a.redis, ","))
	if holdPassword(urls) {
		urls = []string{"URL"}
	}
	for _, url := range urls {
		text += " --redis " + shellWord(url)
	}
	return nextFlags(text)
}

// format is how a command prints what it has found. The default is a table for people.
type format struct {
	wide bool // everything, exact times
	json bool
}

func formatFlags(cmd *cobra.Command, f *format, asJSON string) {
	cmd.Flags().BoolVar(&f.wide, "wide", false, "print all columns, with exact times")
	cmd.Flags().BoolVar(&f.json, "json", false, asJSON)
}

// dateTimeZone is the layout of a time outside of tables.
const dateTimeZone = time.DateTime + " MST"

func exact(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02T15:04:05.000Z07:00") // as in the logs
}

// printError writes an error to stderr, wrapped at the width of a terminal.
func (a *app) printError(text string) {
	p := output.New(a.stderr)
	for line := range strings.SplitSeq(text, "\n") {
		_ = p.Lines(p.Prose(line)) // there is no other place to report a failure
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// sendTo sends a value unless ctx ends before.
func sendTo[T any](ctx context.Context, to chan<- T, v T) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mandate-dev/mandate/elector"
)

// noNames is the Args of a command that takes no names.
func noNames(instead string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return fmt.Errorf("%q given, but %s takes no names%s", args[0], cmd.Name(), instead)
	}
}

// checkCommand records what is wrong with the command that run or supervise is to start. A word before
// the -- would be taken for it, and the -- for its first argument.
func (a *app) checkCommand(cmd *cobra.Command, args []string) {
	switch {
	case len(args) == 0 || args[0] == "":
		a.problem("no command given: write it at the end, after --")
	case cmd.ArgsLenAtDash() != 0 && slices.Contains(args, "--"):
		a.problem("%q stands before the --: only flags go there, and the command after it", args[0])
	}
}

func complete(cmd *cobra.Command, flag string, values []string) {
	// The only error is an unknown flag, which any test would show.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// durationFlag records what is wrong with its value instead of returning an error, so that one run
// reports all invalid flags.
type durationFlag struct {
	app  *app
	name string
	d    *time.Duration
	min  time.Duration
}

// duration adds a flag for a time of at least atLeast. With value 0 no default is shown: the usage
// text names it.
func (a *app) duration(f *pflag.FlagSet, d *time.Duration, name string, value, atLeast time.Duration, usage string) {
	*d = value
	f.Var(durationFlag{a, name, d, atLeast}, name, usage)
}

func (v durationFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		v.app.problem("--%s is %q: give a number with its unit, such as 500ms, 10s or 2m", v.name, s)
	case d < v.min:
		v.app.problem("--%s is %q: it must be at least %v", v.name, s, v.min)
	default:
		*v.d = d
	}
	return nil
}

func (v durationFlag) String() string {
	if v.d == nil || *v.d == 0 {
		return ""
	}
	return v.d.String()
}

func (v durationFlag) Type() string { return "duration" }

// successionFlags configure how the next leader is chosen.
type successionFlags struct {
	kind     string
	priority int
	maxTerm  time.Duration
	noLead   bool
	version  string // of the work
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
	a.duration(f, &o.maxTerm, "max-term", 0, time.Second, "hand over to another candidate after this time, at least a lease (default: no limit)")
	f.StringVar(&o.version, "work-version", "", "`VERSION` of the work: the newer one leads next with --succession seniority, or priority (env MANDATE_WORK_VERSION; default that of mandate)")
}

func (a *app) succession(o *successionFlags, cfg *elector.Config) {
	cfg.Priority, cfg.MaxTerm, cfg.Observer = o.priority, o.maxTerm, o.noLead
	if cfg.Version = o.version; cfg.Version == "" {
		cfg.Version = cmp.Or(a.variable("MANDATE_WORK_VERSION"), buildVersion())
	}
	switch {
	case !slices.Contains(successions(), o.kind):
		a.problem("--succession is %q: use one of %s", o.kind, strings.Join(successions(), ", "))
	case o.kind != race:
		cfg.Succession = elector.Succession(o.kind)
	}
}

// httpFlags are the flags of the commands that report the leader over HTTP.
type httpFlags struct {
	addr, tokenFile string
}

func (a *app) httpFlags(f *pflag.FlagSet, o *httpFlags, addr, usage string) {
	f.StringVar(&o.addr, "http", addr, usage)
	f.StringVar(&o.tokenFile, "http-token-file", "", "enables POST /resign, with the token that this `FILE` holds")
}

// checkAddress records an address on which no machine can listen. Whether this machine can is known
// only when it listens.
func (a *app) checkAddress(ctx context.Context, flag, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		a.problem("%s is %q, which is not an address: give host:port, such as 127.0.0.1:8080", flag, addr)
	} else if _, err := net.DefaultResolver.LookupPort(ctx, "tcp", port); err != nil {
		a.problem("%s is %q: the port must be a number from 0 to 65535", flag, addr)
	}
}

// secret reads a token from a file. A token given as a flag would be visible in every process list.
func (a *app) secret(flag, file string) string {
	b, err := readFile(file)
	a.warnReadable(file)
	token := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		a.problem("%s: %v", flag, err)
	case len(token) < 16, len(token) > 4096: // more than a header may hold
		a.problem("%s: %s holds %d bytes: put 16 to 4096 random ones there (openssl rand -hex 16)", flag, file, len(token))
	case strings.ContainsFunc(token, unicode.IsControl):
		a.problem("%s: %s holds several lines, or control characters, which no client can send: put one line there (openssl rand -hex 16)", flag, file)
	}
	return token
}

// maxFile is the size limit of a file that a flag names, in bytes: a wrong name may be that of any file.
const maxFile = 1 << 20

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(b) > maxFile {
		err = fmt.Errorf("%s is larger than 1 MiB", name)
	}
	return b, err
}

// warnReadable logs that every user of this machine can read these files, which hold secrets.
func (a *app) warnReadable(names ...string) {
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			a.log.Warn("every user of this machine can read a secret: chmod o-r", "file", name)
		}
	}
}

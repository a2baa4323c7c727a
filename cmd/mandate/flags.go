package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// problem records what is wrong with the flags or the environment.
func (t *terminal) problem(format string, args ...any) {
	t.problems = append(t.problems, fmt.Sprintf(format, args...))
}

// usage returns all recorded problems as one error, or nil if there are none.
func (t *terminal) usage() error {
	if len(t.problems) == 0 {
		return nil
	}
	return &usageError{t.problems}
}

// noNames is the Args of a command that takes no names.
func noNames(instead string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return fmt.Errorf("%q given, but %s takes no names%s", args[0], cmd.Name(), instead)
	}
}

func complete(cmd *cobra.Command, flag string, values []string) {
	// The only error is an unknown flag, which any test would show.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// durationFlag records what is wrong with its value instead of returning an error, so that one run
// reports all invalid flags.
type durationFlag struct {
	t    *terminal
	name string
	d    *time.Duration
	min  time.Duration
}

// duration adds a flag for a time of at least atLeast. With value 0 no default is shown: the usage
// text names it.
func (t *terminal) duration(f *pflag.FlagSet, d *time.Duration, name string, value, atLeast time.Duration, usage string) {
	*d = value
	f.Var(durationFlag{t, name, d, atLeast}, name, usage)
}

func (v durationFlag) Set(s string) error {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		v.t.problem("--%s is %q: give a number with its unit, such as 500ms, 10s or 2m", v.name, s)
	case d < v.min:
		v.t.problem("--%s is %q: it must be at least %v", v.name, s, v.min)
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

// checkAddress records an address on which no machine can listen. Whether this machine can is known
// only when it listens.
func (t *terminal) checkAddress(ctx context.Context, flag, addr string) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.problem("%s is %q, which is not an address: give host:port, such as 127.0.0.1:8080", flag, addr)
	} else if _, err := net.DefaultResolver.LookupPort(ctx, "tcp", port); err != nil {
		t.problem("%s is %q: the port must be a number from 0 to 65535", flag, addr)
	}
}

// secret reads a token from a file. A token given as a flag would be visible in every process list.
func (t *terminal) secret(flag, file string) string {
	b, err := readFile(file)
	t.warnReadable(file)
	token := strings.TrimSpace(string(b))
	switch {
	case err != nil:
		t.problem("%s: %v", flag, err)
	case len(token) < 16, len(token) > 4096: // more than a header may hold
		t.problem("%s: %s holds %d bytes: put 16 to 4096 random ones there (openssl rand -hex 16)", flag, file, len(token))
	case strings.ContainsFunc(token, unicode.IsControl):
		t.problem("%s: %s holds several lines, or control characters, which no client can send: put one line there (openssl rand -hex 16)", flag, file)
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
func (t *terminal) warnReadable(names ...string) {
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			t.log.Warn("every user of this machine can read a secret: chmod o-r", "file", name)
		}
	}
}

// fromEnvironment sets a global flag that was not given from its environment variable, and returns
// the name of the flag or variable that has set it.
func (t *terminal) fromEnvironment(f *pflag.Flag) (from string) {
	name := "MANDATE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
	if _, set := os.LookupEnv(name); f.Changed || !set {
		return "--" + f.Name
	}
	_ = f.Value.Set(t.variable(name)) // these flags take any text
	return name
}

// variable returns the value of an environment variable, and records one that is set and empty: nobody has
// filled it in.
func (t *terminal) variable(name string) string {
	value, set := os.LookupEnv(name)
	if set && value == "" {
		t.problem("%s is set, and empty: give it a value, or unset it", name)
	}
	return value
}

// version is set by the linker (see the Makefile).
var version string

// buildVersion returns the version that the Makefile has set, or else that recorded by `go
// install`; empty: neither did.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if version != "" || !ok || info.Main.Version == "(devel)" {
		return version
	}
	return info.Main.Version
}

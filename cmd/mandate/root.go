package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var (
	logLevels  = []string{"debug", "info", "warn", "error"}
	logFormats = []string{"text", "json"}
)

const exitCodesHelp = `
Exit codes, besides those of mandate run --help
  0     yes, or done
  1     failed, or incomplete; stderr has the reason
  3     not found: no leader, no candidate, no history, no such election
  4     too few of the Redis nodes answered, or the user lacks a right
  5, 6  doctor: warnings, failures; 5 also ticks: a job failed, or is overdue
  7     refused: another operator has paused it, or no other could lead
  64    invalid flags or arguments
  130   demo: interrupted
`

// command builds the whole command line. The PreRunE of a subcommand only reads and checks its
// arguments; its RunE has all effects. So usage errors are reported before anything has happened,
// and tests can parse any command line safely.
func rootCommand(c *connection) *cobra.Command {
	root := &cobra.Command{
		Use:   "mandate",
		Short: "Leader election on Redis: one of many runs the work, while it is healthy",
		Long: `Leader election for workers, on the Redis they already run. One candidate of an
election leads, and it keeps its lease only while its probes pass.`,
		Example: `  mandate demo                               watch an election, no Redis needed
  mandate run --election poller -- ./poller  run ./poller on the leader only
  mandate status poller                      show the leader`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       fmt.Sprintf("mandate %s (%s, %s/%s)", cmp.Or(buildVersion(), "unknown"), runtime.Version(), runtime.GOOS, runtime.GOARCH),
	}
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	// The global flags are listed once, in the help of mandate itself.
	root.SetUsageTemplate(strings.NewReplacer(
		"Global Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}", "Global flags, see mandate --help:\n  --redis --prefix --log-level --log-format",
		".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth),
	).Replace(root.UsageTemplate()) + "{{if not .HasParent}}" + exitCodesHelp + "{{end}}")
	f := root.PersistentFlags()
	f.StringArrayVar(&c.redis, "redis", nil, "`URL` of a Redis; repeat it for a quorum of 3 or 5 independent ones "+
		"(env MANDATE_REDIS, comma separated; default at a terminal: "+defaultRedis+")")
	f.StringVar(&c.prefix, "prefix", "mandate", "first part of all keys (env MANDATE_PREFIX)")
	f.StringVar(&c.logLevel, "log-level", "", "what to log on stderr: "+strings.Join(logLevels, ", ")+" (env MANDATE_LOG_LEVEL; default info, with run --once warn)")
	f.StringVar(&c.logFormat, "log-format", "text", "how to log: "+strings.Join(logFormats, ", ")+" (env MANDATE_LOG_FORMAT)")
	complete(root, "log-level", logLevels)
	complete(root, "log-format", logFormats)
	cobra.EnableCommandSorting = false // within a group the first one is the one to type first
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Look:", []*cobra.Command{lsCommand(c), statusCommand(c), historyCommand(c), doctorCommand(c), watchCommand(c), waitCommand(c), shardsCommand(c), ticksCommand(c)}},
		{"Act:", []*cobra.Command{transferCommand(c), resignCommand(c), pauseCommand(c), resumeCommand(c)}},
		{"Run:", []*cobra.Command{runCommand(c), superviseCommand(c), demoCommand(c.terminal)}},
		{"Serve:", []*cobra.Command{serveCommand(c), consoleCommand(c), exporterCommand(c)}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
			if group.title == "Look:" || group.title == "Act:" {
				cmd.ValidArgsFunction = c.completeNames
			}
			if runsLong(cmd) {
				cmd.RunE = c.outliveReaders(cmd.RunE)
			}
			cmd.PreRunE = c.prepare(cmd.PreRunE)
			root.AddCommand(cmd)
		}
	}
	return root
}

// prepare reads the global flags, then those of the command. It only collects problems: the command
// adds its own and reports all of them at once, but for flags without a value.
func (c *connection) prepare(next func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		empty := false
		cmd.Flags().Visit(func(f *pflag.Flag) { // a default would hide a variable that nobody has filled in
			list, _ := f.Value.(pflag.SliceValue)
			if f.Value.Type() == "string" && f.Value.String() == "" || list != nil && slices.Contains(list.GetSlice(), "") {
				c.problem("--%s is empty: give it a value, or leave it out", f.Name)
				empty = true
			}
		})
		if empty {
			return c.usage()
		}
		var level slog.Level
		from := map[string]string{} // the flag or variable that set each value
		for _, name := range []string{"prefix", "log-level", "log-format"} {
			from[name] = c.fromEnvironment(cmd.Flag(name))
		}
		if once := cmd.Flag("once"); once != nil && once.Changed {
			c.logLevel = cmp.Or(c.logLevel, "warn") // cron mails what is printed, from each host
		}
		if c.logLevel = cmp.Or(c.logLevel, "info"); !slices.Contains(logLevels, c.logLevel) {
			c.problem("%s is %q: use one of %s", from["log-level"], c.logLevel, strings.Join(logLevels, ", "))
		} else if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {
			return err
		}
		if c.log = slog.New(c.logHandler(cmd, level)); !slices.Contains(logFormats, c.logFormat) {
			c.problem("%s is %q: use one of %s", from["log-format"], c.logFormat, strings.Join(logFormats, ", "))
		}
		redis.SetLogger(redisLog{c.log})
		c.given = c.givenFlags(cmd.Flags())
		c.prefixFrom = from["prefix"]
		return next(cmd, args)
	}
}

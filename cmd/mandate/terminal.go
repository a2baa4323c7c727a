package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// terminal is where a command line comes from, and where its output and its log go.
type terminal struct {
	args           []string // as typed; they may hold passwords
	stdout, stderr io.Writer

	logLevel, logFormat string

	log      *slog.Logger
	logs     *logQueue // of long-running commands, whose stderr also goes through it
	problems []string  // with the flags and the environment
}

// helpWidth is the width of the narrowest usual terminal.
const helpWidth = 80

// fail reports why the command ends. What logs in JSON does so to its last line.
func (t *terminal) fail(cmd *cobra.Command, code int, text, hint string) {
	log := t.log
	if log == nil { // the error is cobra's own, and no command was prepared
		_ = t.fromEnvironment(cmd.Flag("log-format"))
		log = slog.New(handlerFor(t.stderr, t.logFormat, slog.LevelInfo))
	}
	if t.logFormat == "json" && runsLong(cmd) {
		log.Error("command failed", "command", cmd.CommandPath(), "error", text, "exit_code", code)
		return
	}
	t.printError(strings.TrimSpace(cmd.CommandPath() + ": " + text + "\n" + hint))
}

// formatError formats an error for a person, with its problems as a list. An error may quote what was
// typed, and some libraries quote it unchanged: formatError makes it safe to print on a terminal.
func (t *terminal) formatError(err error) string {
	what, lines := "", problemsOf(err)
	if node, ok := errors.AsType[*elector.NodeError](err); ok { // one problem, with what each node answered
		text := err.Error()
		i := max(0, strings.Index(text, node.Node))
		what, lines = strings.TrimSuffix(text[:i], ": "), strings.Split(text[i:], "\n")
	}
	for i, line := range lines {
		lines[i] = output.CutMiddle(t.withoutPasswords(strings.TrimSpace(line)), maxLine)
	}
	switch {
	case len(lines) == 1:
		return strings.TrimPrefix(what+": "+lines[0], ": ")
	case what == "":
		what = fmt.Sprintf("%d problems", len(lines))
	}
	return what + ":\n  - " + strings.Join(lines, "\n  - ")
}

// maxLine bounds what is printed of one problem, so that a text pasted by mistake does not bury it.
const maxLine = 1000

// problemsOf splits an error into its independent problems.
func problemsOf(err error) []string {
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return slices.Clone(usage.problems)
	case errors.As(err, new(*exitError)):
		return strings.Split(strings.TrimSpace(err.Error()), "\n")
	default: // from parsing flags: a newline in such an error was typed by the user
		text, _, number := strings.Cut(err.Error(), "strconv.")
		if number {
			text += "give a whole number"
		}
		return []string{text}
	}
}

// userinfo matches the part of a URL that may hold a password. A password may contain anything,
// even spaces and @; after the last @ stands the host.
var userinfo = regexp.MustCompile(`(?s)://(.*@)`)

// withoutPasswords masks the passwords that were typed, wherever a text quotes one: a URL given where none
// belongs is quoted like any other invalid argument. Masking what looks like a password would
// garble our own advice.
func (t *terminal) withoutPasswords(text string) string {
	for _, arg := range t.args {
		if m := userinfo.FindStringSubmatch(arg); m != nil {
			quoted := strconv.Quote(m[1])
			text = strings.NewReplacer("://"+m[1], "://***@", "://"+quoted[1:len(quoted)-1], "://***@").Replace(text)
		}
	}
	return text
}

// print prints a value as JSON, or as lines for people.
func (t *terminal) print(asJSON bool, v any, lines func(*output.Printer) []string) error {
	if asJSON {
		return output.JSON(t.stdout, v)
	}
	p := output.New(t.stdout)
	return p.Lines(lines(p))
}

// printError writes an error to stderr, wrapped at the width of a terminal.
func (t *terminal) printError(text string) {
	p := output.New(t.stderr)
	for line := range strings.SplitSeq(text, "\n") {
		_ = p.Lines(p.Prose(line)) // there is no other place to report a failure
	}
}

// dateTimeZone is the layout of a time outside of tables.
const dateTimeZone = time.DateTime + " MST"

func exact(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02T15:04:05.000Z07:00") // as in the logs
}

// logHandler returns the handler of the log.
func (t *terminal) logHandler(cmd *cobra.Command, level slog.Level) slog.Handler {
	plain := handlerFor(t.stderr, t.logFormat, level)
	if !runsLong(cmd) && cmd.Name() != "watch" {
		return plain
	}
	t.logs = newLogQueue(t.stderr, func(lost int64) error {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: the log's reader is gone or too slow", 0)
		r.AddAttrs(slog.Int64("count", lost))
		return plain.Handle(context.Background(), r)
	})
	return handlerFor(t.logs, t.logFormat, level)
}

// outliveReaders makes a command continue when the reader of its log hangs or exits.
func (t *terminal) outliveReaders(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		// Catch SIGPIPE and do not ignore it: child processes would inherit that. A write to a
		// closed pipe then fails and does not kill this process.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		t.stderr = t.logs // for what is printed at the end
		return run(cmd, args)
	}
}

// runsLong reports whether cmd leads or serves until a signal. Such a command must not stop when
// the reader of its log hangs or exits.
func runsLong(cmd *cobra.Command) bool {
	return slices.Contains([]string{"run", "supervise", "serve", "console", "exporter"}, cmd.Name())
}

// finalFlush is how long this process waits at its end for the reader of its output.
const finalFlush = time.Second

package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// Exit codes. 126 and 127 have the same meaning as in a shell; `run --once` can also exit with the
// code of the command.
const (
	exitFailed      = 1  // any error that has no code of its own
	exitNoLeader    = 3  // what was named does not exist: no leader, no candidate, no history, no such election
	exitUnreachable = 4  // commands that read, and operator actions: too few of the Redis nodes answered
	exitWarnings    = 5  // doctor: elections work, with restrictions; ticks: a job is overdue or blocked
	exitFailures    = 6  // doctor: no leader can be elected, or not safely
	exitRefused     = 7  // resign, transfer: refused
	exitNotReleased = 8  // run, serve: ended by a signal, and the lock was not released
	exitOtherLeads  = 9  // run --once --wait: this candidate was not elected in time, mostly because another one leads
	exitUsage       = 64 // invalid flags or arguments (EX_USAGE); not 2, with which Go programs end that panic
	exitPermanent   = 69 // run, serve: Redis refuses permanently, or the name is that of a group (EX_UNAVAILABLE)
	exitNotRunnable = 126
	exitNotFound    = 127
	exitInterrupted = 130 // demo: ended by SIGINT
)

// exitError ends the program with its code.
type exitError struct {
	code  int
	err   error
	quiet bool // the error was printed already, or there is nothing to print
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError lists every problem with the flags, each with what to do about it.
type usageError struct{ problems []string }

func (e *usageError) Error() string { return strings.Join(e.problems, "\n") }

// withCode adds the exit code to err. Only this file maps errors of the library to exit codes.
func withCode(err error) error {
	if err == nil || errors.As(err, new(*exitError)) || errors.As(err, new(*usageError)) {
		return err
	}
	return &exitError{code: codeOf(err), err: err}
}

func codeOf(err error) int {
	switch {
	case errors.Is(err, elector.ErrPermanent):
		return exitPermanent
	case errors.Is(err, elector.ErrNotReleased):
		return exitNotReleased
	case errors.Is(err, elector.ErrUnreachable): // and ErrDenied
		return exitUnreachable
	case errors.Is(err, elector.ErrRefused):
		return exitRefused
	case errors.Is(err, elector.ErrNoLeader):
		return exitNoLeader
	default:
		return exitFailed
	}
}

// maxLine bounds what is printed of one problem, so that a text pasted by mistake does not bury it.
const maxLine = 1000

// formatError formats an error for a person, with its problems as a list. An error may quote what was
// typed, and some libraries quote it unchanged: formatError makes it safe to print on a terminal.
func (a *app) formatError(err error) string {
	what, lines := "", problemsOf(err)
	if node, ok := errors.AsType[*elector.NodeError](err); ok { // one problem, with what each node answered
		text := err.Error()
		i := max(0, strings.Index(text, node.Node))
		what, lines = strings.TrimSuffix(text[:i], ": "), strings.Split(text[i:], "\n")
	}
	for i, line := range lines {
		lines[i] = output.CutMiddle(a.withoutPasswords(strings.TrimSpace(line)), maxLine)
	}
	switch {
	case len(lines) == 1:
		return strings.TrimPrefix(what+": "+lines[0], ": ")
	case what == "":
		what = fmt.Sprintf("%d problems", len(lines))
	}
	return what + ":\n  - " + strings.Join(lines, "\n  - ")
}

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
func (a *app) withoutPasswords(text string) string {
	for _, arg := range a.args {
		if m := userinfo.FindStringSubmatch(arg); m != nil {
			quoted := strconv.Quote(m[1])
			text = strings.NewReplacer("://"+m[1], "://***@", "://"+quoted[1:len(quoted)-1], "://***@").Replace(text)
		}
	}
	return text
}

func statusOf(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "signal: " + ws.Signal().String()
	}
	return "exit status " + strconv.Itoa(ws.ExitStatus())
}

// exitCode returns the exit code that a shell would report.
func exitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

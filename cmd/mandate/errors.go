package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// Exit codes. 126 and 127 are those of a shell; with `run --once` the command's
// own code comes on top.
const (
	exitFailed      = 1  // anything that has no code of its own
	exitUsage       = 2  // invalid flags or arguments
	exitNoLeader    = 3  // what is named is not there: no leader, no candidate, no history, no such election
	exitUnreachable = 4  // all that read, and the operator's: no majority of the Redis nodes answered
	exitWarnings    = 5  // doctor: elections work, with restrictions
	exitFailures    = 6  // doctor: no election, or none that is safe
	exitRefused     = 7  // resign, transfer: refused
	exitNotReleased = 8  // run, serve: ended by a signal, and the lock was not released
	exitPermanent   = 69 // run, serve: Redis refuses, and waiting can't help, or the name is that of a group (EX_UNAVAILABLE)
	exitNotRunnable = 126
	exitNotFound    = 127
	exitInterrupted = 130 // demo: ended by SIGINT
)

// exitError ends the program with a code of its own.
type exitError struct {
	code  int
	err   error
	quiet bool // it was printed already, or there is nothing to print
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// refused is an operator's request that makes no sense now.
func refused(format string, args ...any) error {
	return &exitError{code: exitRefused, err: fmt.Errorf(format, args...)}
}

// usageError lists everything that is wrong with the flags, each with what to do.
type usageError struct{ problems []string }

func (e *usageError) Error() string { return strings.Join(e.problems, "\n") }

// coded gives each error of a command its exit code, so that those without one are
// cobra's own: usage errors.
func coded(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error { return withCode(run(cmd, args)) }
}

// withCode is the one place that knows which error of the library has which exit code.
func withCode(err error) error {
	var exit *exitError
	var usage *usageError
	if err == nil || errors.As(err, &exit) || errors.As(err, &usage) {
		return err
	}
	return &exitError{code: codeOf(err), err: aboutNodes(err)}
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

// Bounds of what is printed about a command line: what was pasted by mistake must not bury
// what is wrong with it.
const (
	maxProblems = 50
	maxLine     = 1000
)

// oneByOne writes an error for a person, its problems as a list. It may quote
// what was typed, by libraries that quote it as it is: so it is made fit for a
// terminal here, and holds no password.
func oneByOne(err error) string {
	what, lines := problemsOf(err)
	for i, line := range lines {
		lines[i] = output.CutMiddle(withoutPasswords(strings.TrimSpace(line)), maxLine)
	}
	n := len(lines)
	if more := n - maxProblems; more > 0 {
		lines = append(lines[:maxProblems], fmt.Sprintf("and %d more", more))
	}
	switch {
	case n == 1 && what == "":
		return lines[0]
	case n == 1:
		return what + ": " + lines[0]
	case what == "":
		what = fmt.Sprintf("%d problems", len(lines))
	}
	return what + ":\n  - " + strings.Join(lines, "\n  - ")
}

// problemsOf takes joined errors apart. What they have in common is empty when
// each stands for itself.
func problemsOf(err error) (what string, lines []string) {
	var usage *usageError
	var exit *exitError
	var nodes *nodesError
	switch {
	case errors.As(err, &nodes):
		return nodes.what, slices.Clone(nodes.answers)
	case errors.As(err, &usage):
		return "", slices.Clone(usage.problems)
	case errors.As(err, &exit):
		return "", strings.Split(strings.TrimSpace(err.Error()), "\n")
	default: // of the flags: a new line in there is one that was typed
		return "", []string{err.Error()}
	}
}

// nodesError is one problem, with what each node answered.
type nodesError struct {
	what    string
	answers []string
}

func (e *nodesError) Error() string { return e.what + ": " + strings.Join(e.answers, "\n") }

// within adds what was done when an error came, and keeps the answers of the nodes apart.
func within(what string, err error) error {
	var nodes *nodesError
	if errors.As(err, &nodes) {
		return &nodesError{what: what + nodes.what, answers: nodes.answers}
	}
	return fmt.Errorf("%s%w", what, err)
}

// aboutNodes is an error of the library without the name of its package, and with
// what the nodes answered kept apart.
func aboutNodes(err error) error {
	if err == nil {
		return nil
	}
	var failed *elector.QuorumError
	if !errors.As(err, &failed) || len(failed.Nodes) == 0 {
		return errors.New(strings.TrimPrefix(elector.Problem(err), "elector: ")) // of package shard, which wraps one of ours
	}
	about := &nodesError{what: failed.Problem}
	for _, n := range failed.Nodes {
		about.answers = append(about.answers, n.Error())
	}
	return about
}

// userinfo is where a URL holds its password. A password may hold anything, also
// a space, and also an @.
var userinfo = regexp.MustCompile(`(?s)://.*@`)

// withoutPasswords takes the passwords out of what may quote a URL: one that was
// given where none belongs is quoted like any other wrong word.
func withoutPasswords(s string) string {
	return userinfo.ReplaceAllStringFunc(s, func(found string) string {
		switch found {
		case "://user:password@", "://[user:password@": // of our own advice
			return found
		}
		return "://***@"
	})
}

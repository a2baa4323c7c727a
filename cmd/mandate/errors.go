package main

import (
	"errors"
	"strings"

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

// usageError lists every problem with the flags, each with what to do about it.
type usageError struct{ problems []string }

func (e *usageError) Error() string { return strings.Join(e.problems, "\n") }

//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
)

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

// notStarted returns what a shell would report about a command that can't be run, with its exit
// code.
func notStarted(name string, err error) error {
	code, why := exitNotRunnable, err.Error()
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		why = of.Path + ": " + of.Err.Error()
	}
	switch {
	case errors.Is(err, supervise.ErrStart):
		return err
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		code, why = exitNotFound, "not found"
		if strings.Contains(name, "/") {
			why = "no such file (or the program that its first line names is missing)"
		}
	case errors.Is(err, exec.ErrDot):
		code, why = exitNotFound, "found in the current directory only: write ./"+name
	case errors.Is(err, syscall.ENOEXEC):
		why = "neither a program of this machine nor a script with a #! line"
	case errors.Is(err, fs.ErrPermission):
		why = "not executable (chmod +x?)"
	}
	return &exitError{code: code, err: fmt.Errorf("can't run %q: %s", name, why)}
}

// noteStopped logs that the terminal has stopped the command. Otherwise a command that prompts for
// a password, for example, would keep leading without doing anything until an operator notices.
func noteStopped(log *slog.Logger, sig syscall.Signal) {
	log.Warn("command stopped by the terminal, of which it is not in the foreground", "signal", sig.String())
}

// checkCommand records what is wrong with the command that run or supervise is to start. A word before
// the -- would be taken for it, and the -- for its first argument.
func checkCommand(t *terminal, cmd *cobra.Command, args []string) {
	switch {
	case len(args) == 0 || args[0] == "":
		t.problem("no command given: write it at the end, after --")
	case cmd.ArgsLenAtDash() != 0 && slices.Contains(args, "--"):
		t.problem("%q stands before the --: only flags go there, and the command after it", args[0])
	}
}

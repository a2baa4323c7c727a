package health

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// Command returns a probe that runs a program and passes when it exits with 0. The program
// inherits the environment and the directory, and reads nothing (/dev/null).
//
// Go's garbage collector waits for every execve on Linux: while that of the program hangs, on a network
// file system that is away for example, this whole process stands still, and its leases expire. A shell
// starts a program without that risk: Command("sh", "-c", "/mnt/check").
//
// When ctx ends, the program and its whole process group are killed (on Unix; elsewhere
// only the program itself), and reaped. A process of it that has left the group and still
// holds the output delays Check by at most 100 ms. The error holds the exit code and the
// last line of the output, cut at 200 bytes.
func Command(name string, args ...string) Probe {
	return Func(func(ctx context.Context) error { return runCommand(ctx, name, args) })
}

func runCommand(ctx context.Context, name string, args []string) error {
	var output tail
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = 100 * time.Millisecond
	killWholeGroup(cmd)

	began := time.Now()
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return nil // it exited with 0; a process that it left in the background doesn't matter
	}
	var printed string
	if line := lastLine(output.bytes); line != "" {
		printed = ": " + line
	}
	var exit *exec.ExitError
	switch {
	case cmd.ProcessState == nil:
		return fmt.Errorf("command %s: %w", name, err) // did not start
	case ctx.Err() != nil:
		return fmt.Errorf("command %s: killed after %s: %w%s", name, short(time.Since(began)), ctx.Err(), printed)
	case errors.As(err, &exit) && exit.Exited():
		return fmt.Errorf("command %s: exit code %d%s", name, exit.ExitCode(), printed)
	}
	return fmt.Errorf("command %s: %w%s", name, err, printed) // "signal: killed"
}

// tail keeps the end of what is written to it: a chatty program must not fill the memory.
type tail struct{ bytes []byte }

const tailSize = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	t.bytes = t.bytes[max(0, len(t.bytes)-tailSize):]
	return len(p), nil
}

//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// The command must not run before the guard knows its process group: were we
// killed in between, what it has started by then would live on. So we start the
// starter in its place: it waits for a byte from us, and becomes the command (by
// exec, in the same process). If we die before, it reads the end of the pipe.

// starterName is argv[0] of the starter.
const starterName = "mandate-start"

// The starter's files beside the standard ones.
const (
	fdGo  = 3 // it reads: one byte, or the end
	fdErr = 4 // it writes why exec failed; closed by a successful exec
)

// starterMain is the other process: argv[1] is the path, the rest the command's argv.
func starterMain() {
	syscall.CloseOnExec(fdGo)
	syscall.CloseOnExec(fdErr)
	if n, _ := os.NewFile(fdGo, "go").Read(make([]byte, 1)); n != 1 || len(os.Args) < 3 {
		os.Exit(exitTrouble)
	}
	err := syscall.Exec(os.Args[1], os.Args[2:], os.Environ())
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // syscall.Exec returns nothing else
		fmt.Fprint(os.NewFile(fdErr, "error"), int(errno))
	}
	os.Exit(exitNotRunnable)
}

// starter is our end.
type starter struct {
	cmd        *exec.Cmd
	goR, goW   *os.File
	errR, errW *os.File
}

// newStarter prepares a starter for a command, which has our standard streams.
func newStarter(path string, argv, env []string) (*starter, error) {
	self, err := selfPath()
	if err != nil {
		return nil, err
	}
	s := &starter{}
	if s.goR, s.goW, err = os.Pipe(); err != nil {
		return nil, err
	}
	if s.errR, s.errW, err = os.Pipe(); err != nil {
		s.close()
		return nil, err
	}
	s.cmd = exec.Command(self) //nolint:noctx // it is ended by its group, with a grace, not by a context
	s.cmd.Args = append([]string{starterName, path}, argv...)
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	s.cmd.ExtraFiles = []*os.File{s.goR, s.errW} // fdGo, fdErr
	ownGroup(s.cmd)
	return s, nil
}

// release lets the started starter become the command; the error is that of exec.
func (s *starter) release() error {
	defer s.close()
	_ = s.goR.Close()
	_ = s.errW.Close() // or we would wait for ourselves
	if _, err := s.goW.Write([]byte{1}); err != nil {
		return err // it is dead
	}
	said, err := io.ReadAll(s.errR)
	if err != nil || len(said) == 0 {
		return err
	}
	errno, err := strconv.Atoi(string(said))
	if err != nil {
		return err
	}
	return syscall.Errno(errno)
}

func (s *starter) close() {
	for _, f := range []*os.File{s.goR, s.goW, s.errR, s.errW} {
		if f != nil {
			_ = f.Close()
		}
	}
}

package health

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// A shell whose program hangs in its execve holds up the probe, and not this process. The kernel holds up everyone who opens
// a file on which somebody has a lease, for 45 s.
func TestShellStartsWhatHangs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "check")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\nexit 0\n"), 0o700))
	lease, err := os.Open(program)
	must(t, err)
	defer lease.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, lease.Fd(), syscall.F_SETLEASE, syscall.F_WRLCK); errno != 0 {
		t.Skip("no leases on files here: ", errno)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began, ended := time.Now(), make(chan error, 1)
	go func() { ended <- Command("sh", "-c", program).Check(ctx) }()
	for len(ended) == 0 {
		runtime.GC()
	}
	wantMessage(t, <-ended, "killed after", "deadline exceeded")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("held up for %v", took)
	}
}

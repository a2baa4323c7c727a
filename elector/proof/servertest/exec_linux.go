package servertest

import (
	"os"
	"syscall"
	"testing"
)

// HungShell makes a shell whose execve hangs until free is called or its process is killed: the kernel holds up everyone
// who opens a file on which somebody has a lease, for 45 s mostly.
func HungShell(t testing.TB, path string) (free func()) {
	t.Helper()
	shell, err := os.ReadFile("/bin/sh")
	if err == nil {
		err = os.WriteFile(path, shell, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	lease, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	free = func() { _ = lease.Close() }
	t.Cleanup(free)
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, lease.Fd(), syscall.F_SETLEASE, syscall.F_WRLCK); errno != 0 {
		t.Skip("no leases on files here: ", errno)
	}
	return free
}

package supervise

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// The runtime's part of a fork: it keeps these names for programs that fork on their own, such as gVisor.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// forkExec starts a program in a process group of its own, and doesn't wait for its execve, which a hung
// file system can hold up for ever. syscall.ForkExec waits, and with it the next garbage collection, so
// everything in this process. When execve fails, the child sets failed, which it shares, to the error, and ends.
//
// Until execve the child is a copy of this process with only one of its threads: it must not allocate,
// grow its stack, or call anything but system calls (see forkAndExecInChild1 of package syscall).
//
//go:norace
//go:noinline
func forkExec(path string, argv []string, attr *syscall.ProcAttr, failed *byte) (int, error) {
	file, ferr := syscall.BytePtrFromString(path)
	args, aerr := syscall.SlicePtrFromStrings(argv)
	env, eerr := syscall.SlicePtrFromStrings(attr.Env)
	if err := errors.Join(ferr, aerr, eerr); err != nil {
		return 0, err
	}
	parent := uintptr(os.Getpid())
	flags, stack := uintptr(syscall.SIGCHLD), uintptr(0)
	if runtime.GOARCH == "s390x" { // whose clone takes these two the other way round
		flags, stack = stack, flags
	}
	beforeFork()
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, flags, stack, 0, 0, 0, 0)
	switch {
	case errno != 0:
		afterFork()
		return 0, errno
	case pid != 0:
		afterFork()
		return int(pid), nil
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETPGID, 0, 0, 0)
	afterForkInChild()
	if attr.Sys.Pdeathsig != 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(attr.Sys.Pdeathsig), 0)
		if now, _, _ := syscall.RawSyscall(syscall.SYS_GETPPID, 0, 0, 0); now != parent {
			_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 1, 0, 0)
		}
	}
	for i, fd := range attr.Files { // a file is in its place already, or its number is beyond all places
		_, _, _ = syscall.RawSyscall(syscall.SYS_DUP3, fd, uintptr(i), 0)
	}
	//nolint:gosec // the pointers are of this frame
	_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(file)), uintptr(unsafe.Pointer(&args[0])), uintptr(unsafe.Pointer(&env[0])))
	*failed = byte(errno)
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

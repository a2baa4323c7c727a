package supervise

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is what /proc shows of a process at one moment.
type process struct {
	pid, parent, group int
	start              uint64 // time since boot, in ticks: distinguishes a process from an earlier one with the same pid
	name               string
	dead               bool // a zombie without any thread that runs on
}

// processes reads all processes of this machine. Processes that begin, end or get another parent
// meanwhile may be missing, but no child of this process that it has not reaped.
func processes() ([]process, error) {
	// In a PID namespace with the /proc of another namespace, the numbers there belong to other
	// processes.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errors.New("/proc is not that of this process")
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, err := readProcess(pid)
		switch {
		case err == nil:
			all = append(all, p)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH):
			return nil, err // such as too many open files
		}
	}
	return all, nil
}

// readProcess reads one process. A process that has ended is fs.ErrNotExist or ESRCH.
func readProcess(pid int) (p process, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, err
	}
	return parseStat(stat)
}

// parseStat parses "pid (name) state ppid pgrp ... starttime ..."; the name may contain anything,
// including brackets and blanks.
func parseStat(stat []byte) (p process, err error) {
	open, shut := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 1 || shut < open {
		return p, fs.ErrInvalid
	}
	f := bytes.Fields(stat[shut+1:])
	if len(f) < 20 {
		return p, fs.ErrInvalid
	}
	var errs [4]error
	p.name = string(stat[open+1 : shut])
	p.pid, errs[0] = strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	p.parent, errs[1] = strconv.Atoi(string(f[1]))
	p.group, errs[2] = strconv.Atoi(string(f[2]))
	p.start, errs[3] = strconv.ParseUint(string(f[19]), 10, 64)
	threads, terr := strconv.Atoi(string(f[17]))
	p.dead = (f[0][0] == 'Z' || f[0][0] == 'X') && threads <= 1 // a main thread that has ended may leave others
	return p, errors.Join(append(errs[:], terr)...)
}

// signalOne signals exactly the process p, and not another one that has got its pid since.
func signalOne(p process, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0) // not available before Linux 5.3, or if a filter forbids it
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
	}
	if now, rerr := readProcess(p.pid); rerr != nil || now.start != p.start {
		return syscall.ESRCH
	}
	if err != nil {
		return syscall.Kill(p.pid, sig)
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

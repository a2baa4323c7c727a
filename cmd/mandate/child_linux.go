package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// selfPath names this very program, also after a deploy has replaced the file.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// dieWithParent is the second string to the guard's bow: it reaches only the
// command itself, but it works when the guard is killed together with us.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// allZombies tells whether all that is left of a group is dead and only waits
// for process 1 to take note. Some take seconds for that, or never do (a
// container's), and the lock must not wait for them.
func allZombies(group int) bool {
	proc, err := os.Open("/proc")
	if err != nil {
		return false
	}
	defer func() { _ = proc.Close() }()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return false
	}
	want := []byte(strconv.Itoa(group))
	dead := 0
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it ended while we looked
		}
		// pid (name) state ppid pgrp ...; the name may hold anything.
		f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(f) < 3 || !bytes.Equal(f[2], want) {
			continue
		}
		if f[0][0] != 'Z' && f[0][0] != 'X' {
			return false
		}
		dead++
	}
	return dead > 0 // none at all: some are hidden from us, and may be alive
}

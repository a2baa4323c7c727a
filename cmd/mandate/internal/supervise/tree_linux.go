package supervise

import (
	"bytes"
	"errors"
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
// meanwhile may be missing, so a single scan proves nothing: that a tree is gone is known when its
// helper has no child left.
func processes() ([]process, error) {
	// In a PID namespace with the /proc of another namespace, the numbers there belong to other
	// processes.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errors.New("/proc is not that of this process")
	}
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := readProcess(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all, nil
}

// readProcess reads one process; ok is false when there is none with this pid.
func readProcess(pid int) (p process, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	return parseStat(stat)
}

// parseStat parses "pid (name) state ppid pgrp ... starttime ..."; the name may contain anything,
// including brackets and blanks.
func parseStat(stat []byte) (p process, ok bool) {
	open, shut := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 1 || shut < open {
		return p, false
	}
	f := bytes.Fields(stat[shut+1:])
	if len(f) < 20 {
		return p, false
	}
	var errs [5]error
	p.name = string(stat[open+1 : shut])
	p.pid, errs[0] = strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	p.parent, errs[1] = strconv.Atoi(string(f[1]))
	p.group, errs[2] = strconv.Atoi(string(f[2]))
	p.start, errs[3] = strconv.ParseUint(string(f[19]), 10, 64)
	threads, err := strconv.Atoi(string(f[17]))
	errs[4] = err
	p.dead = (f[0][0] == 'Z' || f[0][0] == 'X') && threads <= 1 // a main thread that has ended may leave others
	return p, errors.Join(errs[:]...) == nil
}

// below returns the living descendants of root, except those children of root that are spared, and
// their descendants.
func below(all []process, root int, spare map[int]bool) (tree []process) {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	todo := []int{root}
	for len(todo) > 0 {
		pid := todo[0]
		todo = todo[1:]
		for _, p := range children[pid] {
			if p.pid == root || pid == root && spare[p.pid] {
				continue
			}
			todo = append(todo, p.pid)
			if !p.dead {
				tree = append(tree, p)
			}
		}
	}
	return tree
}

// processes returns the living processes of the tree.
func (t tree) processes() ([]process, error) {
	var spare map[int]bool
	if t.spareHelpers {
		helpers.Lock() // none is being started meanwhile
		defer helpers.Unlock()
		spare = helpers.pids
	}
	all, err := processes()
	return below(all, t.root, spare), err
}

// signal sends a signal to every process of the tree, once to each. It returns how many there are and
// how many of them may not be signalled. A process group whose leader is among
// them is signalled as a whole: the kernel does that in one step, so no process of it can escape by
// forking.
func (t tree) signal(sig syscall.Signal) (living, denied int) {
	found, err := t.processes()
	if err != nil { // without /proc only the process group is known
		return t.signalGroup(sig)
	}
	groups := map[int]bool{}
	for _, p := range found {
		if p.group == p.pid {
			groups[p.pid] = syscall.Kill(-p.pid, sig) == nil
		}
	}
	for _, p := range found {
		// A process group counts as signalled when at least one process of it was. Do not signal
		// its processes again: a script would run its trap twice.
		if groups[p.group] && sig != syscall.SIGKILL && !errors.Is(syscall.Kill(p.pid, 0), syscall.EPERM) {
			continue
		}
		if errors.Is(signalOne(p, sig), syscall.EPERM) {
			denied++
		}
	}
	return len(found), denied
}

// living returns the living processes of the tree.
func (t tree) living() (found []Living) {
	all, _ := t.processes()
	for _, p := range all {
		found = append(found, Living{p.pid, p.name})
	}
	return found
}

// signalOne signals exactly the process p, and not another one that has got its pid since.
func signalOne(p process, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0) // not available before Linux 5.3, or if a filter forbids it
	if err == nil {
		defer func() { _ = unix.Close(fd) }()
	}
	if now, ok := readProcess(p.pid); !ok || now.start != p.start {
		return syscall.ESRCH
	}
	if err != nil {
		return syscall.Kill(p.pid, sig)
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

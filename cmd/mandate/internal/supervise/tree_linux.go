package supervise

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is what /proc shows of a process at one moment.
type process struct {
	pid, parent, group int
	start              uint64 // time since boot, in ticks: distinguishes a process from an earlier one with the same pid
	name               string
	dead               bool // a zombie
	stopped            bool // by a signal
}

// processes reads all processes of this machine. Processes that begin, end or get another parent
// meanwhile may be missing, so a single scan proves nothing: that a tree is gone is known when its
// reaper has ended.
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
	var errs [4]error
	p.name = string(stat[open+1 : shut])
	p.pid, errs[0] = strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	p.parent, errs[1] = strconv.Atoi(string(f[1]))
	p.group, errs[2] = strconv.Atoi(string(f[2]))
	p.start, errs[3] = strconv.ParseUint(string(f[19]), 10, 64)
	p.dead = f[0][0] == 'Z' || f[0][0] == 'X'
	p.stopped = f[0][0] == 'T' || f[0][0] == 't'
	return p, errors.Join(errs[:]...) == nil
}

// below returns the living descendants of root, except those children of root for which spare
// returns true and their descendants.
func below(all []process, root int, spare func(process) bool) (tree []process) {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	todo := []int{root}
	for len(todo) > 0 {
		pid := todo[0]
		todo = todo[1:]
		for _, p := range children[pid] {
			if p.pid == root || pid == root && spare(p) {
				continue
			}
			todo = append(todo, p.pid) // a zombie's other threads may still have children
			if !p.dead {
				tree = append(tree, p)
			}
		}
	}
	return tree
}

// spares returns which children of the root do not belong to the tree: the helpers of mandate's
// other commands, and a process that is about to become a helper and is still a copy of mandate.
// They are recognized by their program and arguments. An orphan of a command has these only if it
// is the helper of another mandate, and that helper ends its own command itself.
func (t tree) spares() func(process) bool {
	if !t.left {
		return func(process) bool { return false }
	}
	program, argv := programOf(t.root)
	return func(p process) bool {
		for limit := time.Now().Add(execLimit); ; time.Sleep(execLimit / 100) {
			of, args := programOf(p.pid)
			if program == nil || of == nil || !os.SameFile(program, of) {
				return false
			}
			if args != "" || time.Now().After(limit) {
				return args == GuardName+"\x00" || args == ReaperName+"\x00" || args == ReleaserName+"\x00" || args == argv
			}
		}
	}
}

// execLimit is how long to wait for the arguments of a process. For a moment a process that begins to
// run a program has none, although its parent takes it for started.
const execLimit = 100 * time.Millisecond

// programOf returns the file of the program that a process runs, and its arguments; nil if that
// can't be read.
func programOf(pid int) (program os.FileInfo, argv string) {
	dir := "/proc/" + strconv.Itoa(pid)
	program, err := os.Stat(dir + "/exe")
	args, aerr := os.ReadFile(dir + "/cmdline")
	if err != nil || aerr != nil {
		return nil, ""
	}
	return program, string(args)
}

// signalBelow sends a signal to every living descendant of the root, once to each. It returns how
// many there are and how many of them may not be signalled. A process group whose leader is among
// them is signalled as a whole: the kernel does that in one step, so no process of it can escape by
// forking.
func (t tree) signalBelow(sig syscall.Signal) (living, denied int) {
	all, err := processes()
	if err != nil { // without /proc only the process group is known
		return t.signalGroup(sig)
	}
	found := below(all, t.root, t.spares())
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

// living returns the living descendants of the root.
func (t tree) living() (found []Living) {
	all, err := processes()
	if err != nil {
		return nil
	}
	for _, p := range below(all, t.root, t.spares()) {
		found = append(found, Living{p.pid, p.name})
	}
	return found
}

// rootLives reports whether the root exists and is no zombie.
func (t tree) rootLives() bool {
	p, ok := readProcess(t.root)
	return ok && p.start == t.start && !p.dead
}

// rootStopped reports whether the root is stopped.
func (t tree) rootStopped() bool {
	p, ok := readProcess(t.root)
	return ok && p.start == t.start && p.stopped
}

// killRoot kills the root, but not another process that has got its pid since.
func (t tree) killRoot() { _ = signalOne(process{pid: t.root, start: t.start}, syscall.SIGKILL) }

// signalOne signals exactly the process p, and not another one that has got its pid since.
func signalOne(p process, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return err
		}
		// Before Linux 5.3, or if a filter forbids pidfds: check as late as possible that it is the
		// same process.
		if now, ok := readProcess(p.pid); !ok || now.start != p.start {
			return syscall.ESRCH
		}
		return syscall.Kill(p.pid, sig)
	}
	defer func() { _ = unix.Close(fd) }()
	if now, ok := readProcess(p.pid); !ok || now.start != p.start {
		return syscall.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// identify returns the start time of a process, by which it can be recognized.
func identify(pid int) uint64 {
	p, _ := readProcess(pid)
	return p.start
}

// adoptOrphans makes this process the parent of every orphan below it.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// Marked returns the living processes whose environment contains all of env and is readable: the
// command has started them, but they are not its descendants any more.
func Marked(env ...string) (found []Living) {
	all, err := processes()
	if err != nil {
		return nil
	}
	for _, p := range all {
		if p.dead {
			continue
		}
		environ, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid) + "/environ")
		if err != nil || len(environ) == 0 {
			continue
		}
		has := func(v string) bool { return bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+v+"\x00")) }
		if !slices.ContainsFunc(env, func(v string) bool { return !has(v) }) {
			found = append(found, Living{p.pid, p.name})
		}
	}
	return found
}

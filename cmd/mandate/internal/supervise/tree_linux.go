package supervise

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// process is what /proc shows of a process at one moment.
type process struct {
	pid, parent, group int
	start              uint64 // since boot, in ticks: with it a number that was given out again is recognized
	name               string
	dead               bool // a zombie
	stopped            bool // by a signal
}

// processes reads all processes of this machine. Those that begin, end or get
// another parent meanwhile may be missing, so one scan proves nothing: a tree is
// known to be gone when its reaper has ended.
func processes() ([]process, error) {
	// In a namespace of processes under the /proc of another one the numbers there are those of strangers.
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

// readProcess reads one process; ok is false when there is none of that number.
func readProcess(pid int) (p process, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, false
	}
	return parseStat(stat)
}

// parseStat reads "pid (name) state ppid pgrp ... starttime ..."; the name may hold
// anything, brackets and blanks too.
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

// below are the living descendants of a process, without those that the function spares, and
// what is below them.
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
			todo = append(todo, p.pid) // a zombie's threads may have children yet
			if !p.dead {
				tree = append(tree, p)
			}
		}
	}
	return tree
}

// spares returns which children of the root are not of the tree: the helpers of mandate's
// other commands, which live on, and a process that is about to become one, which is still a
// copy of mandate. They are known by their program, which no orphan of a command has that
// is not the helper of another mandate; such a one ends what it is there for by itself.
func (t tree) spares() func(process) bool {
	if !t.left {
		return func(process) bool { return false }
	}
	program, argv := programOf(t.root)
	return func(p process) bool {
		of, args := programOf(p.pid)
		return program != nil && of != nil && os.SameFile(program, of) &&
			(args == GuardName+"\x00" || args == ReaperName+"\x00" || args == ReleaserName+"\x00" || args == argv)
	}
}

// programOf returns the file of the program that a process runs, and its arguments; nil when
// that can't be read.
func programOf(pid int) (program os.FileInfo, argv string) {
	dir := "/proc/" + strconv.Itoa(pid)
	program, err := os.Stat(dir + "/exe")
	args, aerr := os.ReadFile(dir + "/cmdline")
	if err != nil || aerr != nil {
		return nil, ""
	}
	return program, string(args)
}

// signalBelow sends a signal to every living descendant of the root, each once, and returns
// how many there are and how many of them may not be signalled. A group is signalled
// as a whole where its leader is one of them: the kernel does that in one step, and
// no process of it can fork away between two others.
func (t tree) signalBelow(sig syscall.Signal) (living, denied int) {
	all, err := processes()
	if err != nil { // no /proc of ours: the group is all that we know
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
		// A group counts as signalled when one process of it was. Not twice, then: a
		// script would run its trap twice.
		if groups[p.group] && sig != syscall.SIGKILL && !errors.Is(syscall.Kill(p.pid, 0), syscall.EPERM) {
			continue
		}
		if errors.Is(signalOne(p, sig), syscall.EPERM) {
			denied++
		}
	}
	return len(found), denied
}

// living lists the living descendants of the root.
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

// rootLives reports whether the root is there and no zombie.
func (t tree) rootLives() bool {
	p, ok := readProcess(t.root)
	return ok && p.start == t.start && !p.dead
}

// rootStopped reports whether the root is stopped.
func (t tree) rootStopped() bool {
	p, ok := readProcess(t.root)
	return ok && p.start == t.start && p.stopped
}

// killRoot kills the root, and no process that has got its number since.
func (t tree) killRoot() { _ = signalOne(process{pid: t.root, start: t.start}, syscall.SIGKILL) }

// signalOne signals exactly the process that was looked at, and not another one that
// has got its number since.
func signalOne(p process, sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return err
		}
		// Before Linux 5.3, or forbidden by a filter: then this read is the last moment.
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

// identify names a process so that it can be recognized.
func identify(pid int) uint64 {
	p, _ := readProcess(pid)
	return p.start
}

// adoptOrphans makes this process the parent of every orphan below it.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// Marked are the living processes whose environment holds all of these, and which we
// may read: they were started by the command, but are not below it any more.
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

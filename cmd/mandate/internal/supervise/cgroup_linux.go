package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// longestCgroup keeps a keepAlive, which holds the path, within what a pipe takes in one piece.
const longestCgroup = 1024

// newCgroup makes a group for one command, below our own. An error means that there is
// none here: version 1, mounted read-only, not ours, or a kernel before 5.14.
func newCgroup() (cgroup, error) {
	own, err := ownCgroup()
	if err != nil {
		return "", err
	}
	return newCgroupIn(own)
}

func newCgroupIn(own string) (cgroup, error) {
	removeAbandoned(own)
	if len(own) > longestCgroup {
		return "", fmt.Errorf("the name of our cgroup is too long: %d bytes", len(own))
	}
	dir, err := os.MkdirTemp(own, cgroupName(os.Getpid(), identify(os.Getpid()))+"-*")
	if err != nil {
		return "", err
	}
	c := cgroup(dir)
	// The command may run as another user and still read its own limits and usage.
	if err := errors.Join(os.Chmod(dir, 0o755), unix.Access(c.file("cgroup.kill"), unix.W_OK)); err != nil { //nolint:gosec // as systemd has it
		c.remove()
		return "", fmt.Errorf("%s: %w", c.file("cgroup.kill"), err)
	}
	return c, nil
}

// cgroupName begins the name of every group that a mandate makes.
func cgroupName(pid int, start uint64) string { return fmt.Sprintf("mandate-%d-%d", pid, start) }

// removeAbandoned removes the groups of mandates that were killed. One with members is
// left alone, by the kernel: their mandate may live in another PID namespace.
func removeAbandoned(own string) {
	all, _ := filepath.Glob(filepath.Join(escapeGlob(own), "mandate-*-*-*"))
	for _, dir := range all {
		var pid int
		var start uint64
		if n, _ := fmt.Sscanf(filepath.Base(dir), "mandate-%d-%d-", &pid, &start); n != 2 {
			continue
		}
		if p, ok := readProcess(pid); !ok || p.start != start || p.dead {
			cgroup(dir).remove()
		}
	}
}

// escapeGlob has a path stand for itself in a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// ownCgroup is the directory of the group that this process is in, if it is ours to
// divide.
func ownCgroup() (dir string, err error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	dir, err = findCgroup(string(groups), string(mounts))
	if err != nil {
		return "", err
	}
	// Something else may be mounted over it.
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return "", err
	}
	if !slices.Contains(strings.Fields(string(procs)), strconv.Itoa(os.Getpid())) {
		return "", fmt.Errorf("%s is not our cgroup", dir)
	}
	return dir, managed(dir)
}

// findCgroup finds the directory of a process's group of version 2 by what /proc has of
// the process: cgroup and mountinfo.
func findCgroup(groups, mounts string) (dir string, err error) {
	path := ""
	for line := range strings.Lines(groups) {
		if p, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			path = p
		}
	}
	switch {
	case path == "":
		return "", errors.New("cgroup version 1")
	case strings.HasPrefix(path, "/../"):
		return "", errors.New("our cgroup is outside of our cgroup namespace")
	}
	for line := range strings.Lines(mounts) {
		// ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [OPTIONAL...] - TYPE SOURCE OPTIONS
		of, super, ok := strings.Cut(line, " - ")
		f := strings.Fields(of)
		if !ok || len(f) < 6 || !strings.HasPrefix(super, "cgroup2 ") {
			continue
		}
		root, at := unescapeMount(f[3]), unescapeMount(f[4])
		if below, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(below) {
			return filepath.Join(at, below), nil
		}
	}
	return "", errors.New("no cgroup file system of version 2 shows our cgroup")
}

// unescapeMount undoes the kernel's octal escapes of blanks and backslashes.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// managed is an error for a group that belongs to systemd, which has the only right to
// make groups below it unless the unit has Delegate=yes. Then it carries a mark.
func managed(dir string) error {
	switch filepath.Ext(dir) {
	case ".service", ".scope", ".slice":
	default:
		return nil
	}
	for _, mark := range []string{"user.delegate", "trusted.delegate"} {
		value := make([]byte, 8)
		if n, err := unix.Getxattr(dir, mark, value); err == nil && bytes.Equal(bytes.TrimRight(value[:n], "\x00"), []byte("1")) {
			return nil
		}
	}
	return fmt.Errorf("%s is systemd's: Delegate=yes in the unit hands it to us", dir)
}

func (c cgroup) file(name string) string { return filepath.Join(string(c), name) }

// enter has the kernel start a process in the group.
func (c cgroup) enter(attr *syscall.SysProcAttr) (done func(), err error) {
	fd, err := unix.Open(string(c), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	attr.UseCgroupFD, attr.CgroupFD = true, fd
	return func() { _ = unix.Close(fd) }, nil
}

// kill kills all members.
func (c cgroup) kill() {
	if c == "" {
		return
	}
	f, err := os.OpenFile(c.file("cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return // it was removed, so it was empty; or it is tried again
	}
	_, _ = f.WriteString("1")
	_ = f.Close()
}

// populated reports whether the group has a living member, also in groups below it. Only
// one that is known to be empty, or to be removed, has none.
func (c cgroup) populated() bool {
	if c == "" {
		return false
	}
	events, err := os.Open(c.file("cgroup.events"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV)
	}
	defer func() { _ = events.Close() }()
	return hasMembers(events)
}

// hasMembers reads cgroup.events. The kernel writes it anew for each reader from its
// start.
func hasMembers(events io.ReaderAt) bool {
	text := make([]byte, 256)
	n, err := events.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return !errors.Is(err, syscall.ENODEV)
	}
	return !slices.Contains(strings.Split(string(text[:n]), "\n"), "populated 0")
}

// events opens what reports whether the group has members, for as long as it is needed:
// out of file descriptors, mandate must still see that it may release the lock.
func (c cgroup) events() *os.File {
	if c == "" {
		return nil
	}
	f, err := os.Open(c.file("cgroup.events"))
	if err != nil {
		return nil
	}
	return f
}

// members are the living members.
func (c cgroup) members() (found []Living) {
	if c == "" {
		return nil
	}
	_ = filepath.WalkDir(string(c), func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // a group that was removed meanwhile has none
		}
		procs, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		for _, number := range strings.Fields(string(procs)) {
			pid, _ := strconv.Atoi(number)
			if p, ok := readProcess(pid); ok && !p.dead {
				found = append(found, Living{p.pid, p.name})
			}
		}
		return nil
	})
	return found
}

// remove removes the group with those that the command has made below it, and reports
// whether one is busy: the kernel refuses it while one has a member.
func (c cgroup) remove() (busy bool) {
	if c == "" {
		return false
	}
	var dirs []string
	_ = filepath.WalkDir(string(c), func(dir string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, dir)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) { // those below first
		busy = errors.Is(syscall.Rmdir(dir), syscall.EBUSY) || busy
	}
	return busy
}

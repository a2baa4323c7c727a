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

// longestCgroup limits the path so that a keepAlive, which holds it, can be written atomically to a
// pipe.
const longestCgroup = 1024

// newCgroup makes a cgroup for one command, below that of this process. It returns an error where
// that is impossible: version 1, mounted read-only, not delegated, or a kernel before 5.14.
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
	// Readable by all: the command may run as another user, and should be able to read its own
	// limits and usage.
	if err := errors.Join(os.Chmod(dir, 0o755), unix.Access(c.file("cgroup.kill"), unix.W_OK)); err != nil { //nolint:gosec // as systemd has it
		c.remove()
		return "", fmt.Errorf("%s: %w", c.file("cgroup.kill"), err)
	}
	return c, nil
}

// cgroupName returns the prefix of the names of all cgroups made by a mandate process.
func cgroupName(pid int, start uint64) string { return fmt.Sprintf("mandate-%d-%d", pid, start) }

// removeAbandoned removes the cgroups of mandate processes that were killed. The kernel does not
// remove one that has members: its mandate may be alive in another PID namespace.
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

// escapeGlob escapes a path for use in a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// ownCgroup returns the directory of the cgroup of this process, if this process may make cgroups
// below it.
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
	// Something else may be mounted over the directory.
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return "", err
	}
	if !slices.Contains(strings.Fields(string(procs)), strconv.Itoa(os.Getpid())) {
		return "", fmt.Errorf("%s is not our cgroup", dir)
	}
	return dir, managed(dir)
}

// findCgroup returns the directory of the version 2 cgroup of a process, given the contents of
// /proc/PID/cgroup and /proc/PID/mountinfo.
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

// unescapeMount decodes the kernel's octal escapes of blanks and backslashes.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// managed returns an error for a cgroup that belongs to systemd. Only systemd may make cgroups
// below it, unless the unit has Delegate=yes; then the directory has a mark.
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

// enter makes the kernel start a process in the cgroup.
func (c cgroup) enter(attr *syscall.SysProcAttr) (done func(), err error) {
	fd, err := unix.Open(string(c), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	attr.UseCgroupFD, attr.CgroupFD = true, fd
	return func() { _ = unix.Close(fd) }, nil
}

// kill kills all members of the cgroup.
func (c cgroup) kill() {
	if c == "" {
		return
	}
	f, err := os.OpenFile(c.file("cgroup.kill"), os.O_WRONLY, 0)
	if err != nil {
		return // it was removed, so it was empty; or the next attempt succeeds
	}
	_, _ = f.WriteString("1")
	_ = f.Close()
}

// populated reports whether the cgroup, or a cgroup below it, has a living member. It returns false
// only if the cgroup is known to be empty or removed.
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

// hasMembers reads cgroup.events. The kernel generates its content for each read at offset 0.
func hasMembers(events io.ReaderAt) bool {
	text := make([]byte, 256)
	n, err := events.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return !errors.Is(err, syscall.ENODEV)
	}
	return !slices.Contains(strings.Split(string(text[:n]), "\n"), "populated 0")
}

// events opens cgroup.events. The file stays open, so that mandate can see that the cgroup is empty
// and release the lock even when it has run out of file descriptors.
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

// members returns the living members of the cgroup.
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

// remove removes the cgroup and those that the command has made below it. busy reports that the
// kernel refused to remove one of them because it has a member.
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
	for _, dir := range slices.Backward(dirs) { // the lowest ones first
		busy = errors.Is(syscall.Rmdir(dir), syscall.EBUSY) || busy
	}
	return busy
}

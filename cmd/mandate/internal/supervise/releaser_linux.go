package supervise

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The releaser is a third helper, one for all commands of a mandate. It reads a pipe that mandate
// and the reapers hold open: mandate reports its terms on it, and the pipe ends when all of them
// are dead. A reaper whose tree is gone writes a last line; a reaper that was killed, and left its
// tree to other processes, does not. Terms without that line are left to their leases: a lost line
// only costs time, but a wrong one would let two candidates lead.

// NewReleaser makes the pipe; Start starts the process.
func NewReleaser() (*Releaser, error) {
	r, w, err := reportPipe()
	if err != nil {
		return nil, err
	}
	return &Releaser{r: r, w: w, gone: make(chan struct{})}, nil
}

// reportPipe makes a pipe to which writes never block: what does not fit is lost.
func reportPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, 1<<20) // if this fails, the pipe has the default size
	if err := unix.SetNonblock(fds[1], true); err != nil {
		_, _ = unix.Close(fds[0]), unix.Close(fds[1])
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "reports"), os.NewFile(uintptr(fds[1]), "reports"), nil
}

// Pipe names this process's end of the pipe, for its environment.
func (r *Releaser) Pipe() string { return pipeName(r.w, int(r.w.Fd())) }

// pipeName names the pipe as a process that has it as file descriptor fd.
func pipeName(w *os.File, fd int) string {
	var st unix.Stat_t
	_ = unix.Fstat(int(w.Fd()), &st) // it does not fail for an open file
	return fmt.Sprintf("%d:%d", fd, st.Ino)
}

// Start starts the process. It sends the secrets over another pipe, so that neither its arguments
// nor its environment hold them.
func (r *Releaser) Start(secrets any) error {
	defer func() { _ = r.r.Close() }()
	cmd, err := helper(ReleaserName)
	if err != nil {
		return err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _, _ = in.Close(), out.Close() }()
	cmd.Dir = "/" // so that it keeps no file system busy
	cmd.Stdin = r.r
	cmd.ExtraFiles = []*os.File{in} // fdSecrets
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait()
		close(r.gone)
	}()
	us := tree{root: os.Getpid(), start: identify(os.Getpid())}
	enc := gob.NewEncoder(out)
	if err := enc.Encode([2]uint64{uint64(us.root), us.start}); err != nil {
		return err
	}
	return enc.Encode(secrets)
}

// Gone is closed when the releaser process has ended before mandate.
func (r *Releaser) Gone() <-chan struct{} { return r.gone }

// fdSecrets is the releaser's only file other than the standard ones.
const fdSecrets = 3

// Releasing is the first part of the releaser process. It reads the secrets, calls follow to read
// the pipe to its end, and reports whether mandate is dead then.
func Releasing(secrets any, follow func(pipe io.Reader) error) bool {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	in := os.NewFile(fdSecrets, "secrets")
	dec := gob.NewDecoder(in)
	var mandate [2]uint64
	if dec.Decode(&mandate) != nil || dec.Decode(secrets) != nil {
		return false
	}
	_ = in.Close()
	t := tree{root: int(mandate[0]), start: mandate[1]}
	return t.diedAfter(func() error { return follow(os.Stdin) }, deathLimit)
}

// diedAfter calls follow, which reads the root's pipe to its end, and reports whether the root ends
// within limit after that. The end of the pipe does not prove its death: the kernel closes a
// process's files a moment before the process is dead, and a process that has closed the pipe
// itself lives on.
func (t tree) diedAfter(follow func() error, limit time.Duration) bool {
	fd, err := unix.PidfdOpen(t.root, 0) // not available before Linux 5.3
	if err != nil || !t.rootLives() {
		fd = -1
	}
	return follow() == nil && t.awaitDeath(fd, limit)
}

func (t tree) awaitDeath(pidfd int, limit time.Duration) bool {
	deadline := Now().Add(limit)
	if pidfd < 0 {
		for p := (pauses{}); t.rootLives(); time.Sleep(p.next()) {
			if Until(deadline) <= 0 {
				return false
			}
		}
		return true
	}
	for {
		left := Until(deadline)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(max(left, 0).Milliseconds()))
		switch {
		case err == nil && n == 1:
			return true
		case left <= 0 || err != nil && err != unix.EINTR:
			return false
		}
	}
}

// deathLimit is far longer than a process takes to end after its files were closed.
const deathLimit = 10 * time.Second

// goneLine begins the line that a reaper writes to the releaser when its tree is gone.
const goneLine = "gone "

// Gone parses such a line, and returns the name of the term whose command is gone.
func Gone(line []byte) (term string, ok bool) {
	name, ok := bytes.CutPrefix(line, []byte(goneLine))
	return string(bytes.TrimSuffix(name, []byte("\n"))), ok
}

// reportGone is called by a reaper that has no child left. It has adopted all orphans below it, so
// nothing of its tree is alive.
func reportGone(releaser int, term string) {
	_, _ = unix.Write(releaser, []byte(goneLine+term+"\n"))
}

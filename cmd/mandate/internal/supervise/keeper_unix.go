//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keeper is the parent of commands, and of every orphan that they leave behind. One goroutine owns
// it: it starts, reaps and kills, so that no child disappears while another part looks at it.
type keeper struct {
	tell       func(what string, id, value int) // receives what has happened to a command
	commands   map[int]*command                 // by id, until nothing is left of them
	wake       [2]int                           // a pipe on which the end of a child is seen, beside other files
	failed     []byte                           // shared with the children: the error of execve, by the low bits of the id
	stopSignal syscall.Signal
	childless  bool // there is no child, also none that was adopted

	scan    []process // of all processes, since this process has awaited and reaped; nil: not read yet
	scanErr error
}

// command is one that was started, with everything that it has started.
type command struct {
	id, pid  int
	until    Instant // SIGKILL comes then
	stopping bool    // SIGTERM was sent
	ended    bool    // the command itself has

	pause time.Duration // between two SIGKILLs; 0: none was sent
	again Instant       // when the next one is due
}

const (
	everything = 0 // the id of a command that stands for all children of the keeper
	maxPause   = 20 * time.Millisecond

	forever Instant = math.MaxInt64
)

// newKeeper makes this process adopt all orphans below it.
func newKeeper(tell func(what string, id, value int)) (*keeper, error) {
	// This exec fails, and undoes what Go's runtime does in every process: raise the soft limit of open files.
	// Programs that can't have so many, since they call select(2), must not inherit that.
	_ = syscall.Exec("", []string{""}, nil)
	failed, err := unix.Mmap(-1, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	k := &keeper{tell: tell, commands: map[int]*command{}, failed: failed, childless: true}
	if err := errors.Join(err, adoptOrphans(), unix.Pipe(k.wake[:])); err != nil {
		return nil, err
	}
	for _, fd := range k.wake {
		unix.CloseOnExec(fd)
		_ = unix.SetNonblock(fd, true)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			_, _ = unix.Write(k.wake[1], []byte{0}) // a full pipe is readable as well
		}
	}()
	return k, nil
}

// start starts a command. Everything that it starts inherits its mark. Its execve is the first thing that it
// does: it may fail, or hang, and the command is killed in it as anywhere else.
func (k *keeper) start(c *command, path string, argv []string, attr *syscall.ProcAttr) (err error) {
	_ = setMark(mark(os.Getpid(), c.id))
	failed := k.errnoOf(c)
	*failed = 0
	if c.pid, err = forkExec(path, argv, attr, failed); err == nil {
		k.commands[c.id], k.childless = c, false
	}
	return err
}

func (k *keeper) errnoOf(c *command) *byte { return &k.failed[c.id%len(k.failed)] }

// await blocks until a child has ended, fd is readable, or it is time to act, at the latest until
// limit. A negative fd is none.
func (k *keeper) await(fd int, limit Instant) {
	fds := []unix.PollFd{{Fd: int32(k.wake[0]), Events: unix.POLLIN}, {Fd: int32(fd), Events: unix.POLLIN}}
	_, _ = unix.Poll(fds, k.wait(limit))
	k.scan = nil
	if fds[0].Revents != 0 {
		_, _ = unix.Read(k.wake[0], make([]byte, 64))
	}
}

// recheckEvery bounds how late the keeper acts after the machine was suspended: a timer stops
// meanwhile, but the lease does not.
const recheckEvery = 250 * time.Millisecond

// wait returns how many milliseconds may pass until act is called, at most until limit; negative
// when only an event can change anything.
func (k *keeper) wait(limit Instant) int {
	now, due := Now(), limit
	for _, c := range k.commands {
		switch {
		case c.pause > 0:
			due = min(due, c.again)
		case c.until < forever:
			due = min(due, c.until, now.Add(recheckEvery))
		}
		if c.ended && !adopts { // no child's end shows that its process group is empty
			due = min(due, now.Add(maxPause))
		}
	}
	if due == forever {
		return -1
	}
	return int((max(0, due.Sub(now)) + time.Millisecond - 1).Milliseconds())
}

// reap waits for all children that have ended, also adopted ones.
func (k *keeper) reap() {
	k.scan = nil
	for !k.childless {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD
			k.childless = true
		case pid == 0:
			return
		default:
			k.note(pid, ws)
		}
	}
}

// note tells what has happened to a command. A command that reads from the terminal in the
// background is stopped by it.
func (k *keeper) note(pid int, ws syscall.WaitStatus) {
	for _, c := range k.commands {
		sig := ws.StopSignal()
		switch {
		case c.pid != pid || c.ended:
		case !ws.Stopped():
			c.ended = true
			if errno := *k.errnoOf(c); errno != 0 {
				k.tell("failed", c.id, int(errno))
				return
			}
			k.tell("ended", c.id, int(ws))
		case sig == syscall.SIGTTIN || sig == syscall.SIGTTOU:
			k.tell("stopped", c.id, int(sig))
		}
	}
}

// act kills what is due, and tells of which commands nothing is left. now was read before the newest
// deadlines were: this process may have been stopped since. Nothing may be reaped meanwhile.
func (k *keeper) act(now Instant) {
	for id, c := range k.commands {
		if c.until <= now && c.again <= now {
			k.kill(c, now)
		}
		if c.ended && k.isGone(c) {
			delete(k.commands, id)
			k.tell("gone", id, 0)
		}
	}
}

// kill kills what there is of a command, repeatedly, because a single scan of a tree that grows misses
// new processes. The process group comes first: mostly it is everything, and a scan is slow.
func (k *keeper) kill(c *command, now Instant) {
	again := c.pause > 0
	c.pause = min(max(2*c.pause, time.Millisecond), maxPause)
	if again {
		if living, denied := signalAll(k.tree(c), syscall.SIGKILL); living > 0 && living == denied {
			c.pause = time.Second
		}
	} else if !c.stopping {
		k.tell("late", c.id, 0) // this is not mandate's order, which may have set a later deadline since
	}
	if !again && !c.ended {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
	c.again = now.Add(c.pause)
}

// killAll kills all commands, and everything else below this process.
func (k *keeper) killAll() {
	if k.commands[everything] != nil {
		return
	}
	for _, c := range k.commands {
		c.until = 0
	}
	k.commands[everything] = &command{id: everything, ended: true}
}

// stop sends SIGTERM, or the signal for that, to the processes of a command, once, and continues them: a stopped process
// would not handle the signal. SIGKILL follows at until.
func (k *keeper) stop(c *command, until Instant) {
	first := !c.stopping
	c.stopping, c.until = true, min(c.until, until)
	if first && c.until > Now() {
		all := k.tree(c)
		signalAll(all, k.stopSignal)
		signalAll(all, syscall.SIGCONT)
	}
}

// isGone reports whether no process of a command that has ended is left: no process of it runs
// without one among this process's children, because the kernel makes a child of every orphan in the
// same step in which its parent ends. A child that has ended, and was not reaped, may have left
// orphans after the scan: it counts as living.
func (k *keeper) isGone(c *command) bool {
	switch {
	case !adopts:
		return c.id == everything || errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH)
	case k.childless:
		return true
	case len(k.commands) == 1: // the children are its
		return false
	}
	all, err := k.processes()
	for _, p := range all {
		if p.parent == os.Getpid() && k.owns(c, p.pid) {
			return false
		}
	}
	return err == nil
}

// owns reports whether a child of this process belongs to a command: that is the command, or it has
// left the orphan.
func (k *keeper) owns(c *command, child int) bool {
	if c.id == everything || child == c.pid && !c.ended {
		return true
	}
	for _, other := range k.commands {
		if child == other.pid && !other.ended {
			return false
		}
	}
	return mayBeOf(c.id, os.Getpid(), child)
}

// mayBeOf reports whether an orphan may be one of that command of a keeper. It may be of any if its mark is of none,
// since a process can set it anew; what probes have started has the mark of mandate.
func mayBeOf(command, keeper, orphan int) bool {
	m := markOf(orphan)
	id := m - mark(keeper, 0)
	return id == uint64(command) || id > math.MaxUint32 && m != mark(os.Getpid(), 0)
}

// tree returns the living processes of a command. On systems that can't list them, its process group
// stands for them.
func (k *keeper) tree(c *command) []process {
	all, err := k.processes()
	if err != nil {
		return []process{{pid: c.pid, group: c.pid}}
	}
	return below(all, os.Getpid(), func(child int) bool { return k.owns(c, child) })
}

// processes reads all processes once for all commands.
func (k *keeper) processes() ([]process, error) {
	if k.scan == nil {
		k.scan, k.scanErr = processes()
	}
	return k.scan, k.scanErr
}

// below returns the living descendants of root: those children of it for which has is true, and their
// descendants.
func below(all []process, root int, has func(child int) bool) (tree []process) {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	for todo := []int{root}; len(todo) > 0; todo = todo[1:] {
		for _, p := range children[todo[0]] {
			if p.pid == root || todo[0] == root && !has(p.pid) {
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

// descendants returns the living descendants of this process.
func descendants() []process {
	all, _ := processes()
	return below(all, os.Getpid(), func(int) bool { return true })
}

// signalAll sends a signal to all these processes, once to each. It returns how many there are and how
// many of them may not be signalled. A process group whose leader is among them is signalled as a
// whole: the kernel does that in one step, so no process of it can escape by forking.
func signalAll(all []process, sig syscall.Signal) (living, denied int) {
	groups := map[int]bool{}
	for _, p := range all {
		if p.group == p.pid && p.pid > 1 { // 0 and 1 would mean our own group and all processes
			groups[p.pid] = syscall.Kill(-p.pid, sig) == nil
		}
	}
	for _, p := range all {
		// A process group counts as signalled when at least one process of it was. Do not signal
		// its processes again: a script would run its trap twice.
		if groups[p.group] && sig != syscall.SIGKILL && !errors.Is(syscall.Kill(p.pid, 0), syscall.EPERM) {
			continue
		}
		if errors.Is(signalOne(p, sig), syscall.EPERM) {
			denied++
		}
	}
	return len(all), denied
}

// listed lists some of the processes for people.
func listed(all []process) string {
	var names []string
	for _, p := range all[:min(len(all), 10)] {
		names = append(names, fmt.Sprintf("%d (%s)", p.pid, p.name))
	}
	return strings.Join(names, ", ")
}

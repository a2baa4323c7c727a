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
	"unicode"

	"golang.org/x/sys/unix"
)

// keeper is the parent of commands, and of every orphan that they leave behind. One goroutine owns
// it: it starts, reaps and kills, so that no child disappears while another part looks at it.
type keeper struct {
	tell     func(line string) // receives what has happened to a command
	commands map[int]*command  // by id, until nothing is left of them
	mark     uint64            // of all commands of this keeper, plus the id
	wake     [2]int            // a pipe on which the end of a child is seen, beside other files

	childless bool     // there is no child, also none that was adopted
	killing   bool     // everything ends, whatever it belongs to
	rescan    schedule // of that
}

// command is one that was started, with everything that it has started.
type command struct {
	id, pid  int
	until    Instant // SIGKILL comes then
	stopping bool    // mandate has ordered the end
	ended    bool    // the command itself has
	killing  bool    // the instant has come
	rescan   schedule
	left     string // what was last told to be left
}

// schedule are the growing pauses between repeated scans.
type schedule struct {
	pause time.Duration
	at    Instant
}

// next sets when the next scan is due. If no process that was found may be signalled, that is later.
func (s *schedule) next(now Instant, denied bool) {
	s.pause = min(max(2*s.pause, time.Millisecond), 20*time.Millisecond)
	if denied {
		s.pause = time.Second
	}
	s.at = now.Add(s.pause)
}

// newKeeper makes this process adopt all orphans below it.
func newKeeper(tell func(string)) (*keeper, error) {
	k := &keeper{tell: tell, commands: map[int]*command{}, mark: newMark(), childless: true}
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	if err := unix.Pipe(k.wake[:]); err != nil {
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

// start starts a command. What it starts inherits its mark.
func (k *keeper) start(c *command, path string, argv []string, attr *syscall.ProcAttr) (err error) {
	setMark(k.mark + uint64(c.id))
	if c.pid, err = syscall.ForkExec(path, argv, attr); err != nil {
		return err
	}
	k.commands[c.id], k.childless = c, false
	return nil
}

// await blocks until a child has ended, fd is readable, or it is time to act, at the latest until
// limit. A negative fd is none.
func (k *keeper) await(fd int, limit Instant) {
	fds := []unix.PollFd{{Fd: int32(k.wake[0]), Events: unix.POLLIN}, {Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // small numbers
	_, _ = unix.Poll(fds, k.pause(limit))
	if fds[0].Revents != 0 {
		_, _ = unix.Read(k.wake[0], make([]byte, 64))
	}
}

// recheckEvery bounds how late the keeper acts after the machine was suspended: a timer stops
// meanwhile, but the lease does not.
const recheckEvery = 250 * time.Millisecond

// pause returns how many milliseconds may pass until act is called, at most until limit; negative
// when only an event can change anything.
func (k *keeper) pause(limit Instant) int {
	due := limit
	if k.killing && !k.childless {
		due = min(due, k.rescan.at)
	}
	now := Now()
	for _, c := range k.commands {
		switch {
		case k.killing:
		case c.killing:
			due = min(due, c.rescan.at)
		case c.until < forever:
			due = min(due, c.until, now.Add(recheckEvery))
		}
		if c.ended && !adopts { // no child's end shows that its process group is empty
			due = min(due, now.Add(20*time.Millisecond))
		}
	}
	if due == forever {
		return -1
	}
	return int((max(0, due.Sub(now)) + time.Millisecond - 1).Milliseconds())
}

// forever is later than any instant.
const forever Instant = math.MaxInt64

// reap waits for all children that have ended, also adopted ones.
func (k *keeper) reap() {
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
		if c.pid != pid || c.ended {
			continue
		}
		sig := ws.StopSignal()
		switch {
		case !ws.Stopped():
			c.ended = true
			k.tell(fmt.Sprintf("ended %d %d", c.id, ws))
		case sig == syscall.SIGTTIN || sig == syscall.SIGTTOU:
			k.tell(fmt.Sprintf("stopped %d %d", c.id, sig))
		}
	}
}

// act kills what is due, repeatedly, because a single scan of a tree that grows misses new
// processes; and tells of which commands nothing is left. now was read before the newest deadlines
// were: this process may have been stopped since. Nothing may be reaped meanwhile.
func (k *keeper) act(now Instant) {
	switch {
	case k.killing && k.rescan.pause == 0: // the commands come first
		k.rescan.next(now, false)
	case k.killing && k.rescan.at <= now:
		living, denied := k.killEverything()
		k.rescan.next(now, living > 0 && living == denied)
	}
	for id, c := range k.commands {
		if !c.killing && (c.until <= now || k.killing) {
			if !c.stopping && !k.killing {
				k.tell(fmt.Sprintf("late %d", id))
			}
			c.killing = true
			c.killGroup()
			c.rescan.next(now, false)
		}
		if c.killing && !k.killing && c.rescan.at <= now {
			k.kill(c, now)
		}
		if c.ended && k.isGone(c) {
			delete(k.commands, id)
			k.tell(fmt.Sprintf("gone %d", id))
		}
	}
}

// killGroup kills the process group, which mostly is all that a command has started, faster than a
// scan of all processes.
func (c *command) killGroup() {
	if !c.ended {
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	}
}

// kill kills what a scan finds of a command.
func (k *keeper) kill(c *command, now Instant) {
	t := k.treeOf(c)
	living, denied := signalTree(t, syscall.SIGKILL)
	slow := c.rescan.pause >= 20*time.Millisecond
	c.rescan.next(now, living > 0 && living == denied)
	if left := t.living(); slow && left != c.left {
		c.left = left
		k.tell(fmt.Sprintf("left %d %s", c.id, left))
	}
}

// stop sends SIGTERM to the processes of a command, once, and continues them: a stopped process
// would not handle the signal. SIGKILL follows at until.
func (k *keeper) stop(c *command, until Instant) {
	first := !c.stopping
	c.stopping, c.until = true, min(c.until, until)
	if first && c.until > Now() {
		t := k.treeOf(c)
		signalTree(t, syscall.SIGTERM)
		signalTree(t, syscall.SIGCONT)
	}
}

// isGone reports whether no process of a command that has ended is left: no process of it runs
// without one among this process's children, because the kernel makes a child of every orphan in the
// same step in which its parent ends. A child that has ended, and was not reaped, may have left
// orphans after the scan: it counts as living.
func (k *keeper) isGone(c *command) bool {
	switch {
	case !adopts:
		return errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH)
	case k.childless:
		return true
	case len(k.commands) == 1: // the children are its
		return false
	}
	all, err := processes()
	for _, p := range all {
		if p.parent == os.Getpid() && k.owns(c, p.pid) {
			return false
		}
	}
	return err == nil
}

// owns reports whether a child of this process belongs to a command: that is the command, or it has
// left the orphan. A child whose mark is not of this keeper may belong to any command.
func (k *keeper) owns(c *command, child int) bool {
	if child == c.pid && !c.ended {
		return true
	}
	for _, other := range k.commands {
		if child == other.pid && !other.ended {
			return false
		}
	}
	id := markOf(child) - k.mark
	return id == uint64(c.id) || id > maxID
}

// maxID is the largest id of a command: more than one mandate can start.
const maxID = 1 << 31

// tree is a set of descendants of this process. On systems that can't list them, it is a process
// group.
type tree struct {
	found []process
	group int // if found is unknown; 0: none
}

// treeOf returns the living processes of a command.
func (k *keeper) treeOf(c *command) tree {
	all, err := processes()
	if err != nil {
		return tree{group: c.pid}
	}
	return tree{found: below(all, os.Getpid(), func(child int) bool { return k.owns(c, child) })}
}

// killEverything kills all descendants of this process.
func (k *keeper) killEverything() (living, denied int) {
	all, err := processes()
	if err == nil {
		return signalTree(tree{found: descendants(all)}, syscall.SIGKILL)
	}
	for _, c := range k.commands { // only the process groups are known
		l, d := signalTree(tree{group: c.pid}, syscall.SIGKILL)
		living, denied = living+l, denied+d
	}
	return living, denied
}

// descendants returns the living descendants of this process.
func descendants(all []process) []process {
	return below(all, os.Getpid(), func(int) bool { return true })
}

// living lists the processes for people.
func (t tree) living() string {
	var names []string
	for _, p := range t.found {
		name := strings.Map(printable, p.name)
		if names = append(names, fmt.Sprintf("%d (%s)", p.pid, name)); len(names) == 10 {
			names = append(names, "...")
			break
		}
	}
	return strings.Join(names, ", ")
}

func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return '?'
}

// signalTree sends a signal to every process of the tree, once to each. It returns how many there are
// and how many of them may not be signalled. A process group whose leader is among them is signalled
// as a whole: the kernel does that in one step, so no process of it can escape by forking.
func signalTree(t tree, sig syscall.Signal) (living, denied int) {
	if t.group > 1 { // 0 and 1 would mean our own group and all processes
		switch err := syscall.Kill(-t.group, sig); {
		case errors.Is(err, syscall.ESRCH):
			return 0, 0
		case errors.Is(err, syscall.EPERM):
			return 1, 1
		}
		return 1, 0
	}
	groups := map[int]bool{}
	for _, p := range t.found {
		if p.group == p.pid {
			groups[p.pid] = syscall.Kill(-p.pid, sig) == nil
		}
	}
	for _, p := range t.found {
		// A process group counts as signalled when at least one process of it was. Do not signal
		// its processes again: a script would run its trap twice.
		if groups[p.group] && sig != syscall.SIGKILL && !errors.Is(syscall.Kill(p.pid, 0), syscall.EPERM) {
			continue
		}
		if errors.Is(signalOne(p, sig), syscall.EPERM) {
			denied++
		}
	}
	return len(t.found), denied
}

// below returns the living descendants of root: those children of it for which has is true, and their
// descendants.
func below(all []process, root int, has func(child int) bool) (tree []process) {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	todo := []int{root}
	for len(todo) > 0 {
		pid := todo[0]
		todo = todo[1:]
		for _, p := range children[pid] {
			if p.pid == root || pid == root && !has(p.pid) {
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

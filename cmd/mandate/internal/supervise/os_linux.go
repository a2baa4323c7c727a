package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The boot clock also advances while the machine is suspended, as the lease does.
const clock = unix.CLOCK_BOOTTIME

// adopts: the helper adopts all orphans below it. When it has no child left, nothing of the command
// is left.
const adopts = true

// adoptOrphans makes this process the parent of every orphan below it.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// selfPath returns the path of this program, even after a deploy has replaced its file.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// dieWithParent makes the kernel kill the command when the helper is killed; mandate adopts its
// other descendants.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// awaitGroup does not wait: the helper adopts all orphans.
func awaitGroup(int) {}

// reapEvery bounds how long an adopted zombie remains, and how often /proc is read.
const reapEvery = 10 * time.Second

// startAdopting makes this process a subreaper, and starts a goroutine that reaps the processes it
// adopts: also the orphans of a probe's command, and as process 1 of a container all orphans in it.
func startAdopting() {
	_ = adoptOrphans() // it fails on no Linux that Go supports
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			reapAdopted()
			time.Sleep(reapEvery)
		}
	}()
}

// reapAdopted reaps adopted zombies. Other children are reaped by the code that has started them
// and waits for them, so a child that is still a zombie after a second was adopted.
func reapAdopted() {
	was := zombies()
	if len(was) == 0 {
		return
	}
	time.Sleep(time.Second)
	for pid, start := range zombies() {
		if was[pid] == start {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// zombies returns the dead children of this process, with their start times.
func zombies() map[int]uint64 {
	all, _ := processes()
	found := map[int]uint64{}
	for _, p := range all {
		if p.parent == os.Getpid() && p.dead {
			found[p.pid] = p.start
		}
	}
	return found
}

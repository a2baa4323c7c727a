package supervise

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The boot clock also advances while the machine is suspended, as the lease does.
const clock = unix.CLOCK_BOOTTIME

// adopts: when a keeper has no child left, nothing of the commands is left.
const adopts = true

// adoptOrphans makes this process the parent of every orphan below it.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// selfPath returns the path of this program, even after a deploy has replaced its file.
func selfPath() (string, error) { return "/proc/self/exe", nil }

// dieWithParent makes the kernel kill the command when the helper is killed; mandate adopts its
// other descendants.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// growPipe makes room for some thousand lines. If this fails, the pipe has the default size.
func growPipe(fd int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, 1<<20) }

// mark returns the mark of a command: all its descendants inherit it, whatever they do to their session,
// their environment or their files, so it shows which command has left an orphan. It is the soft limit
// of the number of file locks, which the kernel has not used since 2.4.25.
func mark(keeper, id int) uint64 { return 1<<60 | uint64(keeper)<<32 + uint64(id) }

// setMark marks the processes that this one starts from now on. It fails if an administrator has set a limit that
// this process may not raise.
func setMark(mark uint64) error {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_LOCKS, &limit) // it can't fail
	return unix.Setrlimit(unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: mark, Max: max(limit.Max, mark)})
}

// markOf returns the mark of a process; 0 if it can't be read.
func markOf(pid int) (mark uint64) {
	limits, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	_, rest, _ := strings.Cut(string(limits), "Max file locks ")
	_, _ = fmt.Sscan(rest, &mark)
	return mark
}

// adopt makes this process adopt what a killed helper leaves behind, and reap the processes it adopts:
// also the orphans of a probe's command, and as process 1 of a container all orphans in it.
var adopt = sync.OnceFunc(func() {
	_ = adoptOrphans() // it fails on no Linux that Go supports
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			reapAdopted()
			time.Sleep(10 * time.Second) // so rarely is /proc read
		}
	}()
})

// reapAdopted reaps adopted zombies. Other children are reaped by the code that has started them
// and waits for them, so a child that is still a zombie after a second was adopted.
func reapAdopted() {
	was := map[int]uint64{} // the start of each
	for range 2 {
		all, _ := processes()
		for _, p := range all {
			if p.parent != os.Getpid() || !p.dead {
				continue
			}
			if was[p.pid] == p.start {
				_, _ = syscall.Wait4(p.pid, nil, syscall.WNOHANG, nil)
			}
			was[p.pid] = p.start
		}
		if len(was) == 0 {
			return
		}
		time.Sleep(time.Second)
	}
}

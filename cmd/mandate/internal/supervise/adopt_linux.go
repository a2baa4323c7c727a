package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sweepEvery bounds how long an adopted zombie remains, and how often /proc is read.
const sweepEvery = 10 * time.Second

// startAdopting makes this process a subreaper, and starts a goroutine that reaps the processes it
// adopts: also the orphans of a probe's command, and as process 1 of a container all orphans in it.
func startAdopting() {
	_ = adoptOrphans() // it fails on no Linux that Go supports
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			reapAdopted()
			time.Sleep(sweepEvery)
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

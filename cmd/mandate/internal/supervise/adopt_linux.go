package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sweepEvery bounds how long an adopted zombie stays, and how often /proc is read.
const sweepEvery = 10 * time.Second

// startAdopting makes this process a subreaper, and has it reap what it adopts: the
// orphans of a probe's command, too, and as process 1 of a container those of anybody.
func startAdopting() {
	_ = adoptOrphans() // it fails on no Linux that Go runs on
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			reapAdopted()
			time.Sleep(sweepEvery)
		}
	}()
}

// reapAdopted reaps the zombies without an owner: what has started a process
// waits for it, so that it is no zombie a second later.
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

// zombies are the dead children of this process, with their starts.
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

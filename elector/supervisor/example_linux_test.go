package supervisor_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/supervisor"
)

// A worker that embeds the library reports its terms on a pipe. When it is dead, what it led is
// released, and another replica leads within milliseconds.
func Example() {
	q, err := elector.Open("redis://127.0.0.1:6379") // the worker's nodes
	if err != nil {
		panic(err)
	}
	defer q.Close()
	reports, end, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	defer reports.Close()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(end.Fd()), &st); err != nil {
		panic(err)
	}
	worker := exec.Command("./worker")                 // it starts no other process: those could work on after its death
	worker.ExtraFiles = append(worker.ExtraFiles, end) // its file 3
	worker.Env = append(os.Environ(), fmt.Sprintf("%s=3:%d", supervisor.Variable, st.Ino))
	if err := worker.Start(); err != nil {
		panic(err)
	}
	_ = end.Close() // the worker's is the only one now

	var terms supervisor.Terms
	if err := terms.Follow(reports); err != nil { // until the worker has ended
		panic(err)
	}
	ended := worker.Wait() // it is dead
	if terms.Empty() {     // it has released all itself
		return
	}
	released, err := terms.Release(context.Background(), q, fmt.Sprintf("the worker ended: %v", ended))
	fmt.Println(released, err)
}

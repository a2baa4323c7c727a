package servertest

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// The ports of test servers are below those that systems assign to outgoing connections
// (32768 and up), so that no connection can take a port between FreePort and the server's
// start, or while a killed server is down. The bus ports of clusters, 10000 higher, are below
// them, too. Packages are tested in parallel processes: each process has a block of its own,
// and uses no port twice before it has used all ports of the block.
const (
	firstPort = 14000
	blocks    = 64
	blockSize = 125
)

// block is the block of this process: a process owns a block while it listens on the first port.
var block struct {
	mu    sync.Mutex
	owner net.Listener // until the process ends
	first int
	drawn int
}

// FreePort returns a port of the loopback interface on which no process listens now.
func FreePort(t testing.TB) int {
	t.Helper()
	block.mu.Lock()
	defer block.mu.Unlock()
	for i := 0; block.owner == nil; i++ {
		if i == blocks {
			t.Fatalf("no free block of ports from %d to %d: what listens there?", firstPort, firstPort+blocks*blockSize-1)
		}
		first := firstPort + (os.Getpid()+i)%blocks*blockSize
		if l, err := listen(first); err == nil {
			block.owner, block.first = l, first
		}
	}
	for range blockSize - 1 {
		port := block.first + 1 + block.drawn%(blockSize-1)
		block.drawn++
		if l, err := listen(port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatalf("no free port from %d to %d: what listens there?", block.first+1, block.first+blockSize-1)
	return 0
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

package servertest

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
)

// The ports of test servers lie below those that systems give to outgoing connections
// (from 32768 on): between the look and the server's start, and while a killed server
// is down, such a port can't become the local end of a connection. So do the
// bus ports of clusters, 10000 above. Packages are tested in processes beside one
// another: each has its own block, and draws no port twice before the block's end.
const (
	firstPort = 14000
	blocks    = 64
	blockSize = 125
)

// block is this process's: the process that listens on its first port owns it.
var block struct {
	mu    sync.Mutex
	owner net.Listener // until the process ends
	first int
	drawn int
}

// FreePort is a port of the loopback interface on which no process listens now.
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

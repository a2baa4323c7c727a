package servertest

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

// The ports of test servers lie below those that systems give to outgoing connections
// (from 32768 on): between the look and the server's start, and while a killed server
// is down, such a port can't become the local end of somebody's connection. So do the
// bus ports of clusters, 10000 above. Packages are tested in processes beside one
// another: each draws from a block of its own, and no port twice before its end.
const (
	firstPort = 14000
	blocks    = 64
	blockSize = 125
)

var portsDrawn atomic.Uint32

// FreePort is a port of the loopback interface that nobody listens on now.
func FreePort(t testing.TB) int {
	t.Helper()
	block := firstPort + os.Getpid()%blocks*blockSize
	for range blockSize {
		port := block + int(portsDrawn.Add(1)-1)%blockSize
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatalf("no free port from %d to %d: what listens there?", block, block+blockSize-1)
	return 0
}

package rediserr

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A time-out says to what, where a connection was to be made: an address that is not the node's name, or a look-up.
func TestTimeoutNamesWhatTimedOut(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 6379}
	dial := &net.OpError{Op: "dial", Net: "tcp", Addr: address, Err: os.ErrDeadlineExceeded}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: address, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	lookup := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "i/o timeout", Name: "redis.test", Server: "10.0.0.2:53", IsTimeout: true}}
	for _, c := range []struct {
		node         string
		err          error
		says, advice string
	}{
		{"sentinel-managed Redis 1", fmt.Errorf("%s: %w", NamedBySentinels, dial), "the master that the sentinels name: dial tcp 192.0.2.7:6379: no answer in time", "replica-announce-ip"},
		{"redis.test:6379", dial, "dial tcp 192.0.2.7:6379: no answer in time", "hangs at redis.test:6379"},
		{"redis.test:6379", lookup, "dial tcp: lookup redis.test: no answer in time", "DNS"},
		{"192.0.2.7:6379", dial, "no answer in time", "hangs at 192.0.2.7:6379"},
		{"n", context.DeadlineExceeded, "no answer in time", "hangs at n"},
		{"n", &net.OpError{Op: "read", Net: "tcp", Addr: address, Err: os.ErrDeadlineExceeded}, "no answer in time", "hangs at n"},
		{"cluster [192.0.2.5:6379]", dial, "dial tcp 192.0.2.7:6379: no answer in time", "hangs at 192.0.2.7:6379"},
		{"cluster [192.0.2.5:6379]", refused, refused.Error(), "start Redis at 192.0.2.7:6379 (this election needs the master of its slot), let the Cluster fail over"},
	} {
		err := &NodeError{Node: c.node, Err: c.err}
		if err.Error() != c.node+": "+c.says || !strings.Contains(err.Advice(), c.advice) {
			t.Errorf("%v: %q, %q", c.err, err, err.Advice())
		}
	}
	silent := &NodeError{Node: "n", TLS: true, Silent: true, Err: context.DeadlineExceeded}
	if got := silent.Error(); !strings.Contains(got, "speaks no TLS, write redis://") {
		t.Errorf("%q", got)
	}
}

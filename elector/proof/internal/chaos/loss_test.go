//go:build linux

package chaos

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// lossy makes the loopback interface of a network namespace lose one TCP packet
// in fifty, and becomes the command that follows.
const lossy = `ip link set lo up &&
nft add table inet chaos &&
nft add chain inet chaos in '{ type filter hook input priority 0; }' &&
nft add rule inet chaos in meta l4proto tcp numgen random mod 50 == 0 drop &&
exec "$0" "$@"`

// TestChaosPacketLoss is TestChaos, half as long, where every connection loses
// packets: in a network namespace of its own, so only root can.
func TestChaosPacketLoss(t *testing.T) {
	if out, err := exec.Command("unshare", "-n", "sh", "-c", lossy, "true").CombinedOutput(); err != nil {
		t.Skipf("no packets are lost here: that takes root, unshare, ip and nft: %v: %s", err, out)
	}
	cmd := exec.Command("unshare", "-n", "sh", "-c", lossy, os.Args[0], "-test.run=^TestChaos$", "-test.v")
	cmd.Env = append(os.Environ(), "CHAOSTIME="+(chaosTime(t)/2).String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	t.Logf("with packet loss:\n%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestChaos") {
		t.Errorf("the inner run failed: %v", err)
	}
}

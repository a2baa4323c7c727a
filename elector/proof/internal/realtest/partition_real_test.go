//go:build linux

package realtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// halves are two network namespaces with a link between them. The test reaches both, at 10.77.0.1 and 10.77.0.2.
type halves struct{ names [2]string }

func (h *halves) addr(i int) string { return fmt.Sprintf("10.77.0.%d", i+1) }

// ip runs a command of iproute2.
func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

// startHalves skips the test where namespaces can't be made, or fails it if they are required.
func startHalves(t *testing.T) *halves {
	t.Helper()
	servertest.NeedRedis(t)
	h := &halves{names: [2]string{fmt.Sprintf("mandate-a-%d", os.Getpid()), fmt.Sprintf("mandate-b-%d", os.Getpid())}}
	for i, ns := range h.names {
		if out, err := exec.Command("ip", "netns", "add", ns).CombinedOutput(); err != nil {
			if os.Getenv("MANDATE_TEST_REQUIRE_REDIS") == "1" {
				t.Fatalf("network namespaces are required (MANDATE_TEST_REQUIRE_REDIS=1): be root, and install iproute2: %v: %s", err, out)
			}
			t.Skipf("SKIPPED: no partition of a Sentinel was tested: it needs root and iproute2: %v: %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() }) // with its ends of the links
		link := fmt.Sprintf("md%d%c", os.Getpid(), 'a'+i)
		t.Cleanup(func() { _ = exec.Command("ip", "link", "del", link).Run() })
		ip(t, "link add "+link+" type veth peer name host0 netns "+ns)
		ip(t, fmt.Sprintf("addr add 10.77.%d.1/24 dev %s", i+1, link))
		ip(t, "link set "+link+" up")
		ip(t, fmt.Sprintf("-n %s addr add %s/32 dev lo", ns, h.addr(i)))
		ip(t, "-n "+ns+" link set lo up")
		ip(t, fmt.Sprintf("-n %s addr add 10.77.%d.2/24 dev host0", ns, i+1))
		ip(t, "-n "+ns+" link set host0 up")
		ip(t, fmt.Sprintf("route add %s via 10.77.%d.2", h.addr(i), i+1))
	}
	ip(t, fmt.Sprintf("link add half0 netns %s type veth peer name half0 netns %s", h.names[0], h.names[1]))
	for i, ns := range h.names {
		ip(t, fmt.Sprintf("-n %s addr add 10.77.3.%d/24 dev half0", ns, i+1))
		ip(t, "-n "+ns+" link set half0 up")
		ip(t, fmt.Sprintf("-n %s route add %s via 10.77.3.%d src %s", ns, h.addr(1-i), 2-i, h.addr(i)))
	}
	return h
}

// cut takes the link between the halves down.
func (h *halves) cut(t *testing.T) { t.Helper(); ip(t, "-n "+h.names[0]+" link set half0 down") }

// redis starts a server in a half, and returns a client of it.
func (h *halves) redis(t *testing.T, half, port int, args ...string) *redis.Client {
	t.Helper()
	args = append(append([]string{"netns", "exec", h.names[half], "redis-server"}, args...),
		"--bind", h.addr(half), "--port", fmt.Sprint(port), "--dir", t.TempDir(), "--save", "", "--protected-mode", "no")
	cmd, out := exec.Command("ip", args...), &servertest.Logbook{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // ip has become redis-server
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%v printed:\n%s", args, strings.Join(out.Lines("#"), ""))
		}
	})
	c := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("%s:%d", h.addr(half), port), DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	servertest.Eventually(t, startLimit, "the server answers", func() bool { return c.Ping(t.Context()).Err() == nil })
	return c
}

// The master is cut off from its replicas and from two of three sentinels, and a leader is on its side. Unless the
// master counts its replicas, that leader goes on for as long as the partition lasts, beside the next one; with
// min-replicas-to-write its term ends min-replicas-max-lag, two seconds (Redis looks once a second, and counts whole
// ones), and a lease after the cut.
func TestRealSentinelPartition(t *testing.T) {
	const maxLag = 2 * time.Second
	for name, set := range map[string]int{"unbounded": 0, "min-replicas-to-write": 1} {
		t.Run(name, func(t *testing.T) {
			h := startHalves(t)
			replicas := []string{"--min-replicas-to-write", fmt.Sprint(set), "--min-replicas-max-lag", fmt.Sprint(maxLag.Seconds()), "--repl-diskless-sync-delay", "0"}
			master := h.redis(t, 0, 7000, replicas...)
			for _, port := range []int{7001, 7002} {
				h.redis(t, 1, port, append(replicas, "--replicaof", h.addr(0)+" 7000")...)
			}
			holds := func(c *redis.Client, section, want string) {
				t.Helper()
				servertest.Eventually(t, startLimit, want, func() bool { return strings.Contains(c.Info(t.Context(), section).Val(), want) })
			}
			holds(master, "replication", "connected_slaves:2")
			var sentinels []*redis.Client
			for i := range 3 {
				file := filepath.Join(t.TempDir(), "sentinel.conf")
				conf := fmt.Sprintf("sentinel monitor main %s 7000 2\nsentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n", h.addr(0))
				if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
					t.Fatal(err)
				}
				sentinels = append(sentinels, h.redis(t, min(i, 1), 7100+i, file, "--sentinel"))
			}
			for _, s := range sentinels {
				holds(s, "sentinel", "slaves=2,sentinels=3")
			}
			via := func(sentinel *redis.Client) *elector.Quorum {
				return open(t, "redis+sentinel://"+sentinel.Options().Addr+"?master_name=main")
			}
			el := newElectorate(t)
			el.lease, el.forgives = 2*time.Second, true
			el.join("old", via(sentinels[0]))
			_, one := el.next(0, el.lease+slack)
			el.survives(one, el.lease)
			h.cut(t)
			cut := time.Now()
			holds(sentinels[1], "sentinel", "address="+h.addr(1)) // the next master: this test reaches the old one, too
			t.Logf("the replica was promoted %v after the cut", time.Since(cut))
			el.join("new", via(sentinels[1]))
			_, two := el.next(one.Token(), el.lease+failover)
			t.Logf("the next leader came %v after the cut", time.Since(cut))
			if set == 0 {
				el.survives(one, 6*el.lease)
				el.survives(two, 0)
				return
			}
			wantReason(t, one, maxLag+2*time.Second+el.lease-time.Since(cut), elector.ReasonExpired)
			t.Logf("the old one's term ended %v after the cut", time.Since(cut))
		})
	}
}

//go:build unix

package realtest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

const startLimit = time.Minute

// sentinels is a master, its replica, and three sentinels that watch them.
type sentinels struct {
	master    *servertest.Server // the first master; a failover does not change this field
	replica   *servertest.Server
	sentinels []*servertest.Server
}

// startSentinels starts a master with a replica, and three sentinels that declare the master dead
// after a second. The replica logs in as the user "repl", so that cutReplication cuts off no other
// client.
func startSentinels(t *testing.T) *sentinels {
	t.Helper()
	login := []string{"--masteruser", "repl", "--masterauth", "repl", "--repl-diskless-sync-delay", "0"}
	letReplicate := []any{"ACL", "SETUSER", "repl", "on", ">repl", "+psync", "+replconf", "+ping"}
	d := &sentinels{master: servertest.Redis(t, login...)}
	d.master.Do(t, letReplicate...)
	d.replica = servertest.Redis(t, append(login, "--replicaof", fmt.Sprintf("127.0.0.1 %d", d.master.Port))...)
	d.replica.Do(t, letReplicate...)
	awaitInfo(t, d.replica, "master_link_status:up", "INFO", "replication")
	for range 3 {
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		conf := fmt.Sprintf("sentinel monitor main 127.0.0.1 %d 2\nsentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 3000\n",
			d.master.Port)
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		d.sentinels = append(d.sentinels, servertest.Redis(t, file, "--sentinel"))
	}
	for _, s := range d.sentinels {
		awaitInfo(t, s, "slaves=1,sentinels=3", "INFO", "sentinel")
	}
	return d
}

func awaitInfo(t *testing.T, s *servertest.Server, want string, command ...any) {
	t.Helper()
	servertest.Eventually(t, startLimit, want, func() bool {
		return strings.Contains(fmt.Sprint(s.Do(t, command...)), want)
	})
}

func (d *sentinels) url() string {
	return "redis+sentinel://" + d.sentinels[0].Addr() + "?master_name=main&addr=" + d.sentinels[1].Addr() + "&addr=" + d.sentinels[2].Addr()
}

// promoted waits until the sentinels have promoted the replica, and returns it.
func (d *sentinels) promoted(t *testing.T) *servertest.Server {
	t.Helper()
	servertest.Eventually(t, failover, "the replica is promoted", func() bool {
		return strings.Contains(fmt.Sprint(d.replica.Do(t, "INFO", "replication")), "role:master")
	})
	return d.replica
}

// cutReplication makes the replica go stale: its master refuses it until the test ends.
func (d *sentinels) cutReplication(t *testing.T) {
	t.Helper()
	d.master.Do(t, "ACL", "SETUSER", "repl", "off")
	d.master.Do(t, "CLIENT", "KILL", "TYPE", "replica")
}

// slots is how many hash slots a Redis Cluster has.
const slots = 16384

// cluster is a Redis Cluster of three masters, and then their replicas.
type cluster []*servertest.Server

// startCluster starts a Cluster. A master that does not answer for timeout is replaced.
func startCluster(t *testing.T, timeout time.Duration) (c cluster) {
	t.Helper()
	for range 6 {
		c = append(c, servertest.Redis(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(servertest.FreePort(t)),
			"--cluster-node-timeout", strconv.FormatInt(timeout.Milliseconds(), 10), "--repl-diskless-sync-delay", "0"))
	}
	for i, s := range c {
		s.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, s := range c[1:] {
		port, _ := s.Do(t, "CONFIG", "GET", "cluster-port").(map[any]any)["cluster-port"].(string)
		c[0].Do(t, "CLUSTER", "MEET", "127.0.0.1", s.Port, port)
	}
	for i, master := range c[:3] {
		master.Do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
	}
	for _, s := range c {
		awaitInfo(t, s, "cluster_known_nodes:6", "CLUSTER", "INFO")
	}
	for i, master := range c[:3] {
		c[3+i].Do(t, "CLUSTER", "REPLICATE", nodeID(t, master))
	}
	for i, s := range c {
		awaitInfo(t, s, "cluster_state:ok", "CLUSTER", "INFO")
		if i >= 3 {
			awaitInfo(t, s, "master_link_status:up", "INFO", "replication")
		}
	}
	return c
}

func (c cluster) url() string {
	u := "redis+cluster://" + c[0].Addr() + "?addr=" + c[1].Addr()
	for _, s := range c[2:] {
		u += "&addr=" + s.Addr()
	}
	return u
}

// owner returns the first master of a slot, and its replica. A failover does not change them.
func (c cluster) owner(slot int64) (master, replica *servertest.Server) {
	i := int(3 * slot / slots)
	if int64(i+1)*slots/3-1 < slot {
		i++
	}
	return c[i], c[3+i]
}

// move moves a slot with its keys from one master to another, step by step as redis-cli does,
// slowly.
func (c cluster) move(t *testing.T, slot int64, from, to *servertest.Server) {
	t.Helper()
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", nodeID(t, from))
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", nodeID(t, to))
	for {
		keys, _ := from.Do(t, "CLUSTER", "GETKEYSINSLOT", slot, 1).([]any)
		if len(keys) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
		from.Do(t, "MIGRATE", "127.0.0.1", to.Port, keys[0], 0, 5000)
	}
	for _, s := range []*servertest.Server{to, from, c[0], c[1], c[2]} {
		s.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", nodeID(t, to))
	}
}

func nodeID(t *testing.T, s *servertest.Server) string {
	t.Helper()
	id, _ := s.Do(t, "CLUSTER", "MYID").(string)
	return id
}

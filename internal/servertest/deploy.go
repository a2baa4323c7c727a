//go:build unix

package servertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Sentinels is a master, its replicas, and three sentinels that watch them.
type Sentinels struct {
	Master    *Server // the first master; a failover does not change this field
	Replicas  []*Server
	Sentinels []*Server
}

// Sentinel starts a master with replicas, and three sentinels that declare the master
// dead after downAfter. The replicas log in as the user "repl", so that a test can cut
// off the replicas (see CutReplication) and no other client.
func Sentinel(t testing.TB, replicas int, downAfter time.Duration) *Sentinels {
	t.Helper()
	login := []string{"--masteruser", "repl", "--masterauth", "repl", "--repl-diskless-sync-delay", "0"}
	d := &Sentinels{Master: Redis(t, login...)}
	d.Master.letReplicate(t)
	for range replicas {
		r := Redis(t, append(login, "--replicaof", fmt.Sprintf("127.0.0.1 %d", d.Master.Port))...)
		r.letReplicate(t)
		d.Replicas = append(d.Replicas, r)
	}
	for _, r := range d.Replicas {
		Eventually(t, startLimit, "the replica follows", func() bool {
			return strings.Contains(r.info(t, "replication"), "master_link_status:up")
		})
	}
	for range 3 {
		s := &Server{Port: FreePort(t), ready: "Sentinel ID is"}
		file := filepath.Join(t.TempDir(), "sentinel.conf")
		if err := os.WriteFile(file, fill(
			fmt.Sprintf("sentinel monitor main 127.0.0.1 %d 2", d.Master.Port),
			fmt.Sprintf("sentinel down-after-milliseconds main %d", downAfter.Milliseconds()),
			"sentinel failover-timeout main 3000",
		), 0o600); err != nil {
			t.Fatal(err)
		}
		s.args = []string{file, "--sentinel"}
		d.Sentinels = append(d.Sentinels, start(t, s))
	}
	for _, s := range d.Sentinels {
		Eventually(t, startLimit, "the sentinels know each other and the replicas", func() bool {
			info := s.info(t, "sentinel")
			return strings.Contains(info, fmt.Sprintf("slaves=%d,sentinels=3", replicas))
		})
	}
	return d
}

// URL returns the URL for elector.Open.
func (d *Sentinels) URL() string {
	u := "redis+sentinel://" + d.Sentinels[0].Addr() + "?master_name=main"
	for _, s := range d.Sentinels[1:] {
		u += "&addr=" + s.Addr()
	}
	return u
}

// Promoted waits until the sentinels have promoted a replica, and returns it. The test fails if
// that takes longer than within.
func (d *Sentinels) Promoted(t testing.TB, within time.Duration) *Server {
	t.Helper()
	var now *Server
	Eventually(t, within, "a replica is promoted", func() bool {
		for _, r := range d.Replicas {
			if strings.Contains(r.info(t, "replication"), "role:master") {
				now = r
			}
		}
		return now != nil
	})
	return now
}

func (s *Server) letReplicate(t testing.TB) {
	t.Helper()
	s.Do(t, "ACL", "SETUSER", "repl", "on", ">repl", "+psync", "+replconf", "+ping")
}

// CutReplication makes the replicas of s go stale: s refuses them until the test ends.
func (s *Server) CutReplication(t testing.TB) {
	t.Helper()
	s.Do(t, "ACL", "SETUSER", "repl", "off")
	s.Do(t, "CLIENT", "KILL", "TYPE", "replica")
}

func (s *Server) info(t testing.TB, section string) string {
	t.Helper()
	info, _ := s.Do(t, "INFO", section).(string)
	return info
}

// slots is how many hash slots a Redis Cluster has.
const slots = 16384

// Cluster is a Redis Cluster of three masters with one replica each.
type Cluster struct{ Servers []*Server }

// RedisCluster starts a Cluster. A master that does not answer for timeout is replaced.
func RedisCluster(t testing.TB, timeout time.Duration) *Cluster {
	t.Helper()
	c := &Cluster{}
	for range 6 {
		c.Servers = append(c.Servers, Redis(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(FreePort(t)),
			"--cluster-node-timeout", strconv.FormatInt(timeout.Milliseconds(), 10), "--repl-diskless-sync-delay", "0"))
	}
	for i, s := range c.Servers {
		s.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, s := range c.Servers[1:] {
		port, _ := s.Do(t, "CONFIG", "GET", "cluster-port").(map[any]any)["cluster-port"].(string)
		c.Servers[0].Do(t, "CLUSTER", "MEET", "127.0.0.1", s.Port, port)
	}
	for i := range 3 {
		c.Servers[i].Do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
	}
	for _, s := range c.Servers {
		Eventually(t, startLimit, "all know all", func() bool { return strings.Contains(s.clusterInfo(t), "cluster_known_nodes:6") })
	}
	for i := range 3 {
		c.Servers[3+i].Do(t, "CLUSTER", "REPLICATE", c.Servers[i].ID(t))
	}
	for i, s := range c.Servers {
		Eventually(t, startLimit, "the cluster is whole", func() bool {
			return strings.Contains(s.clusterInfo(t), "cluster_state:ok") &&
				(i < 3 || strings.Contains(s.info(t, "replication"), "master_link_status:up"))
		})
	}
	return c
}

// URL returns the URL for elector.Open.
func (c *Cluster) URL() string {
	u := "redis+cluster://" + c.Servers[0].Addr() + "?addr=" + c.Servers[1].Addr()
	for _, s := range c.Servers[2:] {
		u += "&addr=" + s.Addr()
	}
	return u
}

// Owner returns the first master of a slot, and its replica. A failover does not change them.
func (c *Cluster) Owner(slot int64) (master, replica *Server) {
	i := int(3 * slot / slots)
	if int64(i+1)*slots/3-1 < slot {
		i++
	}
	return c.Servers[i], c.Servers[3+i]
}

// Move moves a slot with its keys from one master to another, step by step as redis-cli
// does. It sleeps for pause before it moves each key.
func (c *Cluster) Move(t testing.TB, slot int64, from, to *Server, pause time.Duration) {
	t.Helper()
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.ID(t))
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.ID(t))
	for {
		keys, _ := from.Do(t, "CLUSTER", "GETKEYSINSLOT", slot, 1).([]any)
		if len(keys) == 0 {
			break
		}
		time.Sleep(pause)
		from.Do(t, "MIGRATE", "127.0.0.1", to.Port, keys[0], 0, 5000)
	}
	for _, s := range []*Server{to, from, c.Servers[0], c.Servers[1], c.Servers[2]} {
		s.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", to.ID(t))
	}
}

// ID returns the node's id in its cluster.
func (s *Server) ID(t testing.TB) string {
	t.Helper()
	id, _ := s.Do(t, "CLUSTER", "MYID").(string)
	return id
}

func (s *Server) clusterInfo(t testing.TB) string {
	t.Helper()
	info, _ := s.Do(t, "CLUSTER", "INFO").(string)
	return info
}

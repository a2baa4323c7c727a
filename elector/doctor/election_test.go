package doctor_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

var must = servertest.Must

func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}

// What can't be examined is an error; a Redis that is away is a finding.
func TestExamineRefusesWhatCanNotBe(t *testing.T) {
	q := testcluster.Open(t, "redis://127.0.0.1:1")
	for name, try := range map[string]func() error{
		"no Quorum":       func() error { _, err := doctor.Examine(t.Context(), nil, doctor.Config{}); return err },
		"an empty Quorum": func() error { _, err := doctor.Examine(t.Context(), &elector.Quorum{}, doctor.Config{}); return err },
		"a name":          func() error { _, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "a b"}); return err },
		"a prefix":        func() error { _, err := doctor.Examine(t.Context(), q.Namespace("a{b"), doctor.Config{}); return err },
		"a lease too short": func() error {
			_, err := doctor.Examine(t.Context(), q, doctor.Config{Lease: time.Millisecond})
			return err
		},
		"a negative lease": func() error { _, err := doctor.Examine(t.Context(), q, doctor.Config{Lease: -time.Second}); return err },
	} {
		if err := try(); err == nil {
			t.Errorf("%s that can't be was accepted", name)
		}
	}
	findings, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders"})
	if err != nil || findings[0].Level != doctor.LevelFail {
		t.Errorf("a Redis that is away: %+v, %v", findings, err)
	}
}

// wantFail wants a failure of that check that names all of these.
func wantFail(t *testing.T, q *elector.Quorum, check string, names ...string) {
	t.Helper()
	all, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders", Lease: testcluster.Lease})
	must(t, err)
	i := slices.IndexFunc(all, func(f doctor.Finding) bool { return f.Check == check && f.Level == doctor.LevelFail })
	if i < 0 {
		t.Fatalf("no failure of %s in %+v", check, all)
	}
	for _, name := range names {
		if !strings.Contains(all[i].Found, name) {
			t.Errorf("%s does not name %s: %s", check, name, all[i].Found)
		}
	}
	if all[i].Advice == "" {
		t.Errorf("%s gives no advice", check)
	}
}

// Whoever looks is told who votes with which nodes, and that two lead; who looks with other nodes than the candidates
// have, too; and with the same ones, in whatever order, nothing.
func TestReportsOfOtherNodes(t *testing.T) {
	testcluster.Bubble(t, 5, func(t *testing.T, c *testcluster.Cluster) {
		_, first, b, second := c.TwoLeaders()
		time.Sleep(testcluster.Lease)
		c.Nodes[0].Heal()
		time.Sleep(testcluster.Lease / 2)
		if !first.Valid() || !second.Valid() {
			t.Fatalf("both lead for a little while: %v, %v", first.Err(), second.Err())
		}
		q := c.Quorum("operator", 1, 2, 0)
		all, err := testcluster.ElectionOf(q, "orders").Candidates(t.Context())
		if err != nil || len(all) != 2 || all[0].SameNodes(all[1]) || !all[0].SameNodes(all[0]) {
			t.Fatalf("candidates %+v, %v", all, err)
		}
		for _, x := range all {
			if len(x.Nodes) != 3 || x.Nodes[0].Name != "127.0.0.1:7001" || len(x.Nodes[0].Identity) != 6 {
				t.Errorf("%s votes with %+v", x.ID, x.Nodes)
			}
		}
		wantFail(t, q, "leaders", "a (token ", "b (token ", "127.0.0.1:7003", "127.0.0.1:7005")
		wantFail(t, q, "candidates", "a with 127.0.0.1:7001 127.0.0.1:7002 127.0.0.1:7003", "b with 127.0.0.1:7001 127.0.0.1:7004 127.0.0.1:7005")
		// On the node that both have stands the lock of one of them: the other's nodes
		// show that they disagree.
		conflicts := 0
		for _, nodes := range [][]int{{0, 1, 2}, {0, 3, 4}} {
			st, err := testcluster.ElectionOf(c.Quorum("operator", nodes...), "orders").Status(t.Context())
			must(t, err)
			if strings.Contains(st.Conflict, "a") && strings.Contains(st.Conflict, "b") {
				conflicts++
				wantFail(t, c.Quorum("operator", nodes...), "locks", "a ", "b ")
			}
		}
		if conflicts != 1 {
			t.Errorf("%d of the two lists show the conflict", conflicts)
		}
		time.Sleep(3 * testcluster.Lease)
		wantFail(t, q, "candidates", "a with", "b with") // one follows, and is wrong still
		b.Shutdown()
		time.Sleep(2 * testcluster.Lease)
		wantFail(t, c.Quorum("operator", 0, 1, 3), "nodes", "other nodes than those given here")
		findings, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders", Lease: testcluster.Lease})
		must(t, err)
		for _, f := range findings {
			if slices.Contains([]string{"candidates", "leaders", "locks", "nodes"}, f.Check) && f.Level != doctor.LevelOK {
				t.Errorf("%+v", f)
			}
		}
	})
}

// An address that leads to several servers is named, whichever of them the connection for requests leads to.
func TestReportsOfSeveralServers(t *testing.T) {
	testcluster.Bubble(t, 2, func(t *testing.T, c *testcluster.Cluster) {
		for i := range c.Nodes {
			s := c.StartOn("seed", []int{i})
			s.Elected(3 * testcluster.Lease)
			s.Shutdown()
		}
		q := c.Quorum("operator", 0)
		all, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders", Lease: testcluster.Lease})
		if err != nil || slices.ContainsFunc(all, func(f doctor.Finding) bool { return f.Check == "servers" }) {
			t.Errorf("one server, and %+v, %v", all, err)
		}
		i := 0
		c.Nodes[0].Balance(func(string) *testredis.Node { i++; return c.Nodes[i%2] })
		wantFail(t, q, "servers", "127.0.0.1:7001 leads to several servers (identities ")
	})
}

// What mandate status reads, it reads once, over a connection to each node and one for the answers.
func TestReadsOnce(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		a, b, d := c.Start("a"), c.Start("b"), c.Start("d")
		testcluster.First(t, 3*testcluster.Lease, a, b, d)
		time.Sleep(2*testcluster.Lease + time.Second)
		var mu sync.Mutex
		commands, locks, connections := 0, 0, map[*server.Peer]bool{}
		for _, n := range c.Nodes {
			n.Server().Server().SetPreHook(func(p *server.Peer, cmd string, args ...string) bool {
				mu.Lock()
				defer mu.Unlock()
				if cmd == "HELLO" {
					connections[p] = true
				}
				if connections[p] {
					commands++
					if strings.HasSuffix(cmd, "GET") && strings.HasSuffix(args[0], ":lock") {
						locks++
					}
				}
				return false
			})
		}
		q := c.Quorum("operator")
		el := testcluster.ElectionOf(q, "orders")
		var trying sync.WaitGroup
		trying.Go(func() { _, _ = doctor.Writable(t.Context(), q, "orders") })
		r := doctor.Read(t.Context(), el, doctor.RecentTerms)
		trying.Wait()
		if r.Leader == nil || len(r.Candidates) != 3 || len(r.Terms) == 0 {
			t.Errorf("read %+v", r)
		}
		if commands > 30 || locks > 3 || len(connections) > 6 {
			t.Errorf("%d commands, of which %d read the lock, over %d connections", commands, locks, len(connections))
		}
		for _, n := range c.Nodes { // no candidate is told to look
			_ = n.Server().Set("mandate:{orders}:pause", "by me")
		}
		mu.Lock()
		commands = len(c.Nodes) // the trial write
		mu.Unlock()
		if r := doctor.Read(t.Context(), el, doctor.RecentTerms); !r.Paused || commands > 3*(15+1) {
			t.Errorf("paused: %v, %d commands", r.Paused, commands)
		}
		began := time.Now()
		if none := doctor.Read(t.Context(), testcluster.ElectionOf(q, "nobody"), 1); none.CandidatesErr != nil || time.Since(began) > 100*time.Millisecond {
			t.Errorf("of no candidates: %v, after %v", none.CandidatesErr, time.Since(began))
		}
	})
}

// One backup was restored to all nodes: what doctor advises then harms no term, and nothing takes it for other lists.
func TestReportsOfCopies(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		const key = "mandate:{orders}:id"
		for _, n := range c.Nodes {
			_ = n.Server().Set(key, "COPIED")
		}
		const id = "COPIED"
		a, b := c.Start("a"), c.Start("b")
		_, term := testcluster.First(t, 3*testcluster.Lease, a, b)
		time.Sleep(4 * testcluster.Lease)
		q := c.Quorum("operator")
		if got := doctor.Read(t.Context(), testcluster.ElectionOf(q, "orders"), 1); !slices.ContainsFunc(got.Findings(nil), func(f doctor.Finding) bool {
			return f.Check == "same-server" && f.Level == doctor.LevelWarn && f.Advice == "mandate doctor orders shows which"
		}) {
			t.Errorf("findings %+v", got.Findings(nil))
		}
		c.Nodes[1].Server().Del(key)
		c.Nodes[2].Server().Del(key)
		time.Sleep(5 * testcluster.Lease)
		if one, _ := c.Nodes[1].Server().Get(key); one == "" || one == id || !term.Valid() || a.Check() != nil || b.Check() != nil {
			t.Errorf("identity %q after %q, %v, %v, %v", one, id, term.Err(), a.Check(), b.Check())
		}
	})
}

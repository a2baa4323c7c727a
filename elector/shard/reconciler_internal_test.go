package shard

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// alone runs f with a member that does not run, of 8 shards on three nodes, in a bubble of its own.
func alone(t *testing.T, f func(*testing.T, *Member)) {
	t.Helper()
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m, err := New(c.Quorum("a"), Config{Group: "orders", Shards: 8, ID: "a"})
		servertest.Must(t, err)
		f(t, m)
	})
}

func TestNewest(t *testing.T) {
	v := func(token, seq uint64) *group.Plan {
		return &group.Plan{Version: group.Version{Token: token, Seq: seq}}
	}
	for _, c := range []struct {
		name   string
		byNode []*group.Plan
		want   *group.Plan
	}{
		{"none", []*group.Plan{nil, nil, nil}, nil},
		{"one node has answered", []*group.Plan{nil, v(1, 1), nil}, v(1, 1)},
		{"a node is behind", []*group.Plan{v(1, 3), v(1, 2), v(1, 2)}, v(1, 3)},
		{"two are behind, each by another plan", []*group.Plan{v(1, 1), v(1, 2), v(1, 3)}, v(1, 3)},
		{"a new assigner on one node", []*group.Plan{v(2, 1), v(1, 7), v(1, 8)}, v(1, 8)},
		{"a new assigner on two", []*group.Plan{v(2, 1), v(1, 7), v(2, 2)}, v(2, 2)},
		{"one node is forged", []*group.Plan{v(99, 1), v(1, 7), v(1, 8)}, v(1, 8)},
		{"the last node is forged", []*group.Plan{v(1, 7), v(1, 8), v(99, 1)}, v(1, 8)},
		{"one is forged, one has none", []*group.Plan{v(99, 1), v(1, 7), nil}, v(99, 1)},
	} {
		got := newest(c.byNode, 2)
		if (got == nil) != (c.want == nil) || got != nil && got.Version != c.want.Version {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Regression: a member that became the assigner right after it had joined made the first plan as if there
// were none yet: late, and each restart of all members moved shards once more.
func TestNewAssignerContinuesThePlan(t *testing.T) {
	alone(t, func(t *testing.T, m *Member) {
		r := newReconciler(t.Context(), m, nil)
		term, end := new(elector.Term).Ungranted(module.Only{}, 9)
		defer end(elector.ReasonShutdown)
		r.assign(term)
		all := []group.Member{{ID: "a", Incarnation: m.incarnation, Weight: 1}, {ID: "b", Incarnation: "B", Weight: 1}}
		before := &group.Plan{Shards: 8, Version: group.Version{Token: 7, Seq: 3}, Guests: group.Set{1}, Members: []group.Assigned{
			{Member: all[0], Planned: group.Set{0, 1, 2, 3}}, {Member: all[1], Planned: group.Set{4, 5, 6, 7}},
		}}
		began := time.Now()
		for i := range 2 {
			r.answered(i, r.out.Load(), group.Answer{Accepted: true, Plan: before, Members: all}, nil)
		}
		<-r.assigner.due
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("it waited for %v", took)
		}
		r.decide()
		if p := r.out.Load().plan; !p.Equal(before) || p.Version.Token != 9 {
			t.Errorf("%+v, want the same as before", p)
		}
	})
}

// A member joins, and ends, by what a majority of the nodes has; a minority may be behind, or forged.
func TestSettingsOfAMajority(t *testing.T) {
	alone(t, func(t *testing.T, m *Member) {
		none, ours, other := group.Settings{}, m.cfg.settings(), group.NewSettings(12, m.cfg.Lease)
		for _, tc := range []struct {
			shown      []*group.Settings
			joins, end bool
		}{
			{shown: []*group.Settings{&none, nil, nil}},
			{shown: []*group.Settings{&none, &none, nil}, joins: true},
			{shown: []*group.Settings{&ours, &none, &other}, joins: true},
			{shown: []*group.Settings{&other, &none, nil}},
			{shown: []*group.Settings{&other, &none, &other}, end: true},
		} {
			r := newReconciler(t.Context(), m, nil)
			for i, s := range tc.shown {
				r.nodes[i].settings = s
			}
			if r.judge(); r.joins != tc.joins || (r.failed != nil) != tc.end {
				t.Errorf("%v: joins %v, ends %v", tc.shown, r.joins, r.failed)
			}
		}
	})
}

// A term may begin to work for less than a lease after a majority has accepted beats, counted from
// before they were sent.
func TestAdmissionIsALease(t *testing.T) {
	alone(t, func(t *testing.T, m *Member) {
		r := newReconciler(t.Context(), m, nil)
		accepts := func(node int, sent lease.Stamp) { r.nodes[node].accepted.Store(&sent) }
		sent := r.clock.Now()
		accepts(0, sent)
		if r.admitted() {
			t.Error("one of three nodes admits it")
		}
		time.Sleep(m.cfg.Lease / 2)
		accepts(2, sent)
		if !r.admitted() {
			t.Error("two of three nodes do not admit it")
		}
		time.Sleep(m.cfg.Lease / 2)
		if accepts(1, r.clock.Now()); r.admitted() {
			t.Error("it is admitted by nodes that may have forgotten the group since")
		}
	})
}

// A term that was won does not begin to work before a majority has accepted the member.
func TestNoWorkWithoutAdmission(t *testing.T) {
	alone(t, func(t *testing.T, m *Member) {
		began := make(chan struct{})
		r := newReconciler(t.Context(), m, func(ctx context.Context, _ *Term) error {
			close(began)
			<-ctx.Done()
			return nil
		})
		of := r.begin(0)
		defer of.cancel()
		time.Sleep(m.cfg.Lease)
		if of.elector.Term() == nil || closed(began) {
			t.Errorf("leads: %v, works: %v", of.elector.Term() != nil, closed(began))
		}
		now := r.clock.Now()
		r.nodes[0].accepted.Store(&now)
		r.nodes[2].accepted.Store(&now)
		if time.Sleep(2 * pollEvery); !closed(began) {
			t.Error("it does not work when two of three nodes have accepted it")
		}
	})
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A node that is behind shows what a member was: the newest record counts, in whatever order the nodes answer.
func TestNewestRecordOfAMemberCounts(t *testing.T) {
	at := func(seq uint64) []group.Member { return []group.Member{{ID: "a", Incarnation: "x", Seq: seq}} }
	for _, lists := range [][][]group.Member{{at(1), at(2), at(1)}, {at(2), at(1), at(1)}, {at(1), at(1), at(2)}} {
		if all := living(lists, 2); len(all) != 1 || all[0].Seq != 2 {
			t.Errorf("%v: %v", lists, all)
		}
	}
	if all := living([][]group.Member{at(1), nil, nil}, 2); len(all) > 0 {
		t.Errorf("a member that a minority lists is alive: %v", all)
	}
}

func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}

package shard

import (
	"slices"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

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

// A member counts where a majority of the nodes knows it: on one node alone it may be forged, or
// be cut off from the others, where it could hold no lock.
func TestRoll(t *testing.T) {
	m := func(id, incarnation string, seq uint64) group.Member {
		return group.Member{ID: id, Incarnation: incarnation, Seq: seq}
	}
	for _, c := range []struct {
		name   string
		byNode [][]group.Member
		want   []group.Member
	}{
		{"none", [][]group.Member{nil, nil, nil}, nil},
		{"on all nodes", [][]group.Member{{m("a", "1", 1)}, {m("a", "1", 1)}, {m("a", "1", 1)}}, []group.Member{m("a", "1", 1)}},
		{"on a majority", [][]group.Member{{m("a", "1", 1)}, nil, {m("a", "1", 1)}}, []group.Member{m("a", "1", 1)}},
		{"on a minority", [][]group.Member{{m("a", "1", 1)}, nil, nil}, nil},
		{"two incarnations on one node each", [][]group.Member{{m("a", "1", 1)}, {m("a", "2", 1)}, nil}, nil},
		{"the newest record", [][]group.Member{{m("a", "1", 7)}, {m("a", "1", 9)}, {m("a", "1", 8)}}, []group.Member{m("a", "1", 9)}},
		{"in order", [][]group.Member{
			{m("b", "2", 1), m("a", "3", 1), m("a", "1", 1)},
			{m("a", "1", 1), m("b", "2", 1), m("a", "3", 1)},
			nil,
		}, []group.Member{m("a", "1", 1), m("a", "3", 1), m("b", "2", 1)}},
	} {
		same := func(x, y group.Member) bool {
			return x.ID == y.ID && x.Incarnation == y.Incarnation && x.Seq == y.Seq
		}
		if got := living(c.byNode, 2); !slices.EqualFunc(got, c.want, same) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A member that gets no answers ends what campaigns, since the plan that would end it does not arrive, and
// keeps what it owns: that ends by its lease.
func TestSilenceEndsWhatCampaigns(t *testing.T) {
	q, err := elector.Open("redis://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	m, err := New(q, Config{Group: "g", Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	r := newReconciler(t.Context(), m, nil)
	for s := range 2 {
		if r.running[s], err = newCandidacy(r, s); err != nil {
			t.Fatal(err)
		}
	}
	r.running[1].term = &Term{Shard: 1}
	r.nodes[0].answered = time.Now()
	if err := r.silence(); err != nil || r.running[0].ctx.Err() != nil {
		t.Errorf("when a node has answered just now: %v, campaigning: %v", err, r.running[0].ctx.Err())
	}
	r.nodes[0].answered = time.Now().Add(-time.Hour)
	if err := r.silence(); err == nil || r.running[0].ctx.Err() == nil || r.running[1].ctx.Err() != nil {
		t.Errorf("after an hour without an answer: %v, campaigning: %v, the owned shard: %v", err, r.running[0].ctx.Err(), r.running[1].ctx.Err())
	}
}

// A member joins, and ends, by what a majority of the nodes has; a minority may be behind, or forged.
func TestSettingsOfAMajority(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m, err := New(c.Quorum("a"), Config{Group: "orders", Shards: 8, ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
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
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m, err := New(c.Quorum("a"), Config{Group: "orders", Shards: 8, ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		a := newAdmission(t.Context(), m)
		sent := a.clock.Now()
		a.accepted(0, sent)
		if a.holds() {
			t.Error("one of three nodes admits it")
		}
		time.Sleep(m.cfg.Lease / 2)
		a.accepted(2, sent)
		if !a.holds() {
			t.Error("two of three nodes do not admit it")
		}
		time.Sleep(m.cfg.Lease / 2)
		if a.accepted(1, a.clock.Now()); a.holds() {
			t.Error("it is admitted by nodes that may have forgotten the group since")
		}
	})
}

package shard

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// A member joins, and ends, by what a majority of the nodes has; a minority may be behind, or forged.
func TestSettingsOfAMajority(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m, err := New(c.Quorum("a"), Config{Group: "orders", Shards: 8, ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		none, ours, other := &group.Settings{}, &group.Settings{Shards: 8, Lease: m.cfg.Lease}, &group.Settings{Shards: 12, Lease: m.cfg.Lease}
		for _, tc := range []struct {
			shown      []*group.Settings
			joins, end bool
		}{
			{shown: []*group.Settings{none, nil, nil}},
			{shown: []*group.Settings{none, none, nil}, joins: true},
			{shown: []*group.Settings{ours, none, other}, joins: true},
			{shown: []*group.Settings{other, none, nil}},
			{shown: []*group.Settings{other, none, other}, end: true},
		} {
			r := newReconciler(t.Context(), m, nil)
			r.shown = tc.shown
			r.agree()
			failed := len(r.inbox.take()) > 0
			if r.joins != tc.joins || failed != tc.end {
				t.Errorf("%v: joins %v, ends %v", tc.shown, r.joins, failed)
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
		a := &newReconciler(t.Context(), m, nil).admission
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

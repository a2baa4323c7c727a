package shard

import (
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
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
		if r.running[s], err = r.newCandidacy(s); err != nil {
			t.Fatal(err)
		}
	}
	r.running[1].term = &Term{Shard: 1}
	r.answered[0] = time.Now()
	if err := r.silence(); err != nil || r.running[0].ctx.Err() != nil {
		t.Errorf("when a node has answered just now: %v, campaigning: %v", err, r.running[0].ctx.Err())
	}
	r.answered[0] = time.Now().Add(-time.Hour)
	if err := r.silence(); err == nil || r.running[0].ctx.Err() == nil || r.running[1].ctx.Err() != nil {
		t.Errorf("after an hour without an answer: %v, campaigning: %v, the owned shard: %v", err, r.running[0].ctx.Err(), r.running[1].ctx.Err())
	}
}

// BenchmarkEvents: what one shard's begin costs a member that begins to own so many at once.
func BenchmarkEvents(b *testing.B) {
	q, err := elector.Open("redis://127.0.0.1:1")
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	for _, shards := range []int{1024, 4096, 16384} {
		b.Run(fmt.Sprint(shards), func(b *testing.B) {
			m, err := New(q, Config{Group: "bench", Shards: shards})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				r := newReconciler(b.Context(), m, nil)
				for s := range shards {
					if r.running[s], err = r.newCandidacy(s); err != nil {
						b.Fatal(err)
					}
				}
				for s := range shards {
					r.send(began{c: r.running[s], term: &Term{Shard: s}})
				}
				r.apply()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*shards), "us/shard")
		})
	}
}

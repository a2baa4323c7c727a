package main

import (
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

func tenants(change func(g *groupReport)) report {
	g := &groupReport{Status: shard.Status{Group: "tenants", Shards: 8, Assigner: "a", Members: []shard.MemberStatus{{ID: "a"}, {ID: "b", Closed: "stopping"}}}}
	change(g)
	r := reportOf(elector.Status{Election: "tenants#*"})
	r.group = g
	return r
}

// A group is one row, with what is wrong with it and the command to type next.
func TestGroupRow(t *testing.T) {
	for name, c := range map[string]struct {
		r            report
		row, problem string
	}{
		"well":        {tenants(func(*groupReport) {}), "tenants#* 8/8 owned - - 1/2 -", ""},
		"unowned":     {tenants(func(g *groupReport) { g.Unowned = []shard.Vacancy{{Shard: 2, Why: "its owner is dead"}} }), "tenants#* 7/8 owned - - 1/2 - 1 of 8 shards have no owner: 2 (its owner is dead)", "1 of 8 shards have no owner: 2 (its owner is dead)"},
		"no assigner": {tenants(func(g *groupReport) { g.Assigner = "" }), "tenants#* 8/8 owned - - 1/2 - no assigner: shards stay where they are", "no assigner: shards stay where they are"},
		"all unowned": {tenants(func(g *groupReport) { g.Unowned = make([]shard.Vacancy, 8) }), "tenants#* 0/8 owned - - 1/2 - 8 of 8 shards have no owner: 0,0,0,0,0,0,0,0 ()", "8 of 8 shards have no owner"},
		"missing":     {tenants(func(g *groupReport) { g.Missing = []shard.MissingMember{{ID: "c"}} }), "tenants#* 8/8 owned - - 1/2 - members missing: 1, such as c", "members missing: 1"},
		"fails":       {tenants(func(g *groupReport) { g.Members[0].Unable, g.Members[1].Unable = []int{2, 7}, []int{7} }), "tenants#* 8/8 owned - - 1/2 - shard 7 is left by a, b for now, after failed work or a step-down", "shard 7 is left by a, b for now, after failed work or a step-down"},
		"missed":      {tenants(func(g *groupReport) { *g = groupReport{Status: shard.Status{Shards: 8}, gone: true, missed: true} }), "tenants#* vacant (8 shards) - - 0/0 - no member answers: none is running, or Redis refuses them", "no member answers"},
		"gone":        {tenants(func(g *groupReport) { *g = groupReport{Status: shard.Status{Shards: 8}, gone: true} }), "tenants#* abandoned (8 shards) - - 0/0 -", ""},
	} {
		p := c.r.problem()
		if !strings.HasPrefix(p.Found, c.problem) || (p.Found != "") != (c.problem != "") || p.Found != "" && !strings.HasPrefix(p.Advice, "mandate ") {
			t.Errorf("%s: %+v", name, p)
		}
		lines := (&output.Printer{Width: 200}).Table(electionTable([]report{c.r}))
		if got := strings.Join(strings.Fields(lines[1]), " "); got != c.row {
			t.Errorf("%s: %q, want %q", name, got, c.row)
		}
	}
}

// scriptTimeout is how long the scripts wait for what should happen: far more than
// it takes, because these machines are small and busy.
const scriptTimeout = time.Minute

// pollEvery is how often poll looks.
const pollEvery = 5 * time.Millisecond

func poll(ok func() error) error {
	deadline := time.Now().Add(scriptTimeout)
	for {
		err := ok()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pollEvery)
	}
}

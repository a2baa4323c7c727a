package group

import (
	"math"
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
)

// A record counts for the member in whose field it is, and none may upset the plan.
func TestRecordsThatAreNone(t *testing.T) {
	for record, ok := range map[string]bool{
		`{"id":"a","incarnation":"x","weight":1}`:       true,
		`{"id":"a","incarnation":"y","weight":1}`:       false,
		`{"incarnation":"x","weight":1}`:                false,
		`{"id":"a","incarnation":"x","weight":0}`:       false,
		`{"id":"a","incarnation":"x","weight":-1}`:      false,
		`{"id":"a","incarnation":"x"}`:                  false,
		`{"id":"a","incarnation":"x","weight":"NaN"}`:   false,
		`{"id":"a","incarnation":"x","weight":1e999}`:   false,
		`{"id":"a","incarnation":"x","weight":1,"x":1}`: true,
	} {
		if _, got := parseMember(record, "x"); got != ok {
			t.Errorf("%s: %v", record, got)
		}
	}
}

// FuzzRecords reads what anyone who may write the keys of a group can have put there: garbage costs balance, and
// no process. What is accepted can be planned with, and shown.
func FuzzRecords(f *testing.F) {
	for _, plan := range []string{
		"\xff", "1.1", "1.1 ", "1.1 null", "1.1 {}", "\x00\xff not a plan", `1.1 {"shards":3,"members":[{"incarnation":"A","planned":"0-2","owned":"1"}],"guests":"0,2"}`,
		`1.1 {"shards":16384,"members":null,"guests":"16383"}`, `1.1 {"shards":1,"members":[{"incarnation":"A","planned":"5","weight":-1},{}],"guests":"7"}`,
	} {
		f.Add(plan, `{"id":"a","incarnation":"A","weight":1,"owned":"0-1","unable":"2","ready":{"1":"x","-5":"y"}}`, `{"shards":3,"lease_ms":10000}`)
	}
	f.Add("", `{"id":"a","incarnation":"A","weight":5e-324,"owned":"0-16383","unable":""}`, `{"shards":16385}`)
	f.Add("1.1 {", `{"id":"\u0000\n","incarnation":"A","weight":1e308,"owned":"3,1"}`, "null")
	f.Fuzz(func(t *testing.T, plan, record, settings string) {
		s := NewStore(&nodes.Nodes{}, "mandate", "g", 0, 0, 0)
		shards := 3
		if got, err := s.settings(settings); err == nil {
			if shards = got.Shards; shards < 1 || shards > MaxShards || got.String() == "" {
				t.Fatalf("%+v", got)
			}
		}
		members := []Member{{ID: "b", Incarnation: "B", Weight: 1}}
		if m, ok := parseMember(record, "A"); ok {
			if !(m.Weight > 0) || math.IsInf(m.Weight, 0) || len(m.ID) > 1000 {
				t.Fatalf("%+v", m)
			}
			members = append(members, m)
		}
		last := parsePlan(plan)
		if last == nil {
			last = &Plan{}
		}
		last.Owners()
		last.Assignees()
		shards = min(shards, 64) // the planner's time is not what is looked for
		for shard, m := range NewPlan(members, shards, last, 3).Assignees() {
			if m == NoMember && !(len(members) == 2 && members[1].Closed == "") {
				t.Fatalf("shard %d is for no member", shard)
			}
		}
	})
}

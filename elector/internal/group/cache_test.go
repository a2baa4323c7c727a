package group

import (
	"fmt"
	"slices"
	"testing"
)

// A plan is read once, whichever node shows it; a forged one of the same version is another one.
func TestPlansAreReadOnce(t *testing.T) {
	var c plans
	text := func(owned string) string {
		return `7.1 {"shards":4,"members":[{"id":"a","incarnation":"x"}],"assigned":["` + owned + `"],"owned":[""]}`
	}
	first := c.parse(text("0-3"))
	if first == nil || c.parse(text("0-3")) != first {
		t.Fatalf("read twice: %+v", first)
	}
	if forged := c.parse(text("1")); forged == nil || slices.Equal(forged.Assigned[0], first.Assigned[0]) || forged.Version != first.Version {
		t.Errorf("a forged plan: %+v", forged)
	}
	if p := c.parse("garbage"); p != nil || c.parse("") != nil {
		t.Errorf("read from garbage: %+v", p)
	}
}

// Each node's members are those that it shows now, in whatever order; none is taken from another one.
func TestRecordsOfEachNode(t *testing.T) {
	var c records
	record := func(id string, seq uint64) (list []any) {
		return []any{id, Member{ID: id, Incarnation: id, Weight: 1, Seq: seq}.encode()}
	}
	shows := func(node int, list []any, want string) {
		t.Helper()
		got := ""
		for _, m := range c.parse(node, list) {
			got += fmt.Sprint(m.ID, m.Seq, " ")
		}
		if got != want {
			t.Errorf("node %d shows %q, want %q", node, got, want)
		}
	}
	both := append(record("a", 1), record("b", 1)...)
	shows(0, both, "a1 b1 ")
	shows(1, record("b", 1), "b1 ")
	shows(1, append(record("a", 2), record("b", 1)...), "a2 b1 ")
	shows(0, record("a", 2), "a2 ")
	shows(0, []any{"other", record("a", 2)[1], "b", "garbage"}, "")
	shows(1, nil, "")
	if len(c.byNode[0]) != 1 || len(c.byNode[1]) != 0 {
		t.Errorf("kept beyond what the nodes show: %v", c.byNode)
	}
}

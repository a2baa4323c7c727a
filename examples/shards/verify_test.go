package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// verify finds what it is there for.
func TestVerify(t *testing.T) {
	const insert = "INSERT INTO invoices (tenant, number, shard, token, member) VALUES "
	for name, c := range map[string]struct {
		spoil string
		want  string // in the error; none: all is well
	}{
		"all well":        {"UPDATE tenants SET ordered = ordered", ""},
		"the next owner":  {"UPDATE invoices SET token = 8, member = 'm2' WHERE tenant = 'a' AND number = 3", ""},
		"lost at the end": {"DELETE FROM invoices WHERE tenant = 'a' AND number = 3", "1 orders were not invoiced"},
		"a gap":           {"DELETE FROM invoices WHERE tenant = 'a' AND number = 2", "1 orders were not invoiced"},
		"none at all":     {"DELETE FROM invoices WHERE tenant = 'a'", "3 orders were not invoiced"},
		"doubled":         {insert + "('a', 2, 1, 7, 'm1')", "1 invoices too many"},
		"not ordered":     {insert + "('a', 4, 1, 7, 'm1')", "1 invoices too many"},
		"no such tenant":  {insert + "('x', 1, 1, 7, 'm1')", "1 invoices too many"},
		"crossed":         {"UPDATE invoices SET token = 6 WHERE tenant = 'a' AND number = 3", "wrote with token 6 of shard 1 after m1 with token 7"},
		"shared":          {"UPDATE invoices SET member = 'm2' WHERE tenant = 'a' AND number = 3", "m2 wrote with token 7 of shard 1 after m1 with token 7"},
		"shard of before": {"UPDATE invoices SET shard = 2 WHERE tenant = 'a' AND number = 3", "with token 7 of shard 2 after m1 with token 7 of shard 1"},
		"no orders":       {"DELETE FROM tenants", "no orders"},
	} {
		t.Run(name, func(t *testing.T) {
			where := filepath.Join(t.TempDir(), "invoices.db")
			db, err := openDatabase(t.Context(), where)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, tenant := range []string{"b", "a"} {
				order(t, db, tenant, 3)
				if _, err := db.write(t.Context(), tenant, writer{"g", len(tenant), 7, "m1"}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := db.ExecContext(t.Context(), c.spoil); err != nil {
				t.Fatal(err)
			}
			code, out, logs := run(t, "verify", "--wait", "0s", "--db", where)
			if c.want == "" && code != 0 || c.want != "" && (code != 1 || !strings.Contains(logs, c.want)) {
				t.Errorf("exit code %d, want %q\n%s%s", code, c.want, out, logs)
			}
		})
	}
}

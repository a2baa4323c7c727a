package main

import (
	"context"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// One rule for a name that Redis knows nothing of: docs/runbook.md, "Exit codes".
func TestUnknownNamesHaveOneExitCode(t *testing.T) {
	m := miniredis.RunT(t)
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"status NAME":            {exitNoLeader, "no trace of"},
		"history NAME":           {exitNoLeader, "is the name right?"},
		"wait NAME --timeout 2s": {exitNoLeader, noTrace},
		"resign NAME":            {exitNoLeader, noTrace},
		"transfer NAME --to a":   {exitNoLeader, noTrace},
		"ls NAME":                {exitNoLeader, "no election has such a name"},
		"shards NAME":            {exitNoLeader, "no members of a group"},
		"pause NAME --for 1s":    {exitNoLeader, noTrace},
		"resume NAME":            {exitNoLeader, noTrace},
		"doctor NAME":            {exitNoLeader, "no trace of"},
	} {
		name := strings.Fields(line)[0]
		var out, logs captured
		args := strings.Fields(strings.ReplaceAll(line, "NAME", "e-"+name))
		code := execute(context.Background(), append([]string{"--redis", "redis://" + m.Addr()}, args...), &out, &logs)
		if all := out.String() + logs.String(); code != want.code || !strings.Contains(all, want.text) {
			t.Errorf("%s: exit code %d, want %d with %q:\n%s", line, code, want.code, want.text, all)
		}
	}
}

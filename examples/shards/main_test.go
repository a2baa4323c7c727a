//go:build unix

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/examples/internal/process"
)

// As README.md has it: one process leads all shards, and hands them over.
func TestProgram(t *testing.T) {
	const shards = 5
	program, url := process.Build(t), process.RedisURL(t)
	a := process.Start(t, program, "-shards", fmt.Sprint(shards), url)
	for i := range shards {
		a.Says(t, 1, fmt.Sprintf("msg=working shard=%d", i))
	}
	b := process.Start(t, program, "-shards", fmt.Sprint(shards), url)
	b.Says(t, shards, "following")
	a.Stop(t)
	for i := range shards {
		b.Says(t, 1, fmt.Sprintf("msg=working shard=%d", i))
	}
	b.Stop(t)
}

func TestBadShards(t *testing.T) {
	p := process.Start(t, process.Build(t), "-shards", "0")
	if code := p.ExitCode(); code != 1 {
		t.Errorf("exit code %d:\n%s", code, p.Logged())
	}
}

func TestHelp(t *testing.T) {
	p := process.Start(t, process.Build(t), "--help")
	if code := p.ExitCode(); code != 0 || !strings.Contains(p.Logged(), "[-shards N] [URL...]") {
		t.Errorf("exit code %d:\n%s", code, p.Logged())
	}
}

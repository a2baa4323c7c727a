//go:build unix

package main

import (
	"fmt"
	"testing"
)

// As README.md has it: one process leads all shards, and hands them over.
func TestProgram(t *testing.T) {
	const shards = 5
	program, url := build(t), redisURL(t)
	a := start(t, program, "-shards", fmt.Sprint(shards), url)
	for i := range shards {
		a.says(t, 1, fmt.Sprintf("msg=working shard=%d", i))
	}
	b := start(t, program, "-shards", fmt.Sprint(shards), url)
	b.says(t, shards, "following")
	a.stop(t)
	for i := range shards {
		b.says(t, 1, fmt.Sprintf("msg=working shard=%d", i))
	}
	b.stop(t)
}

func TestBadShards(t *testing.T) {
	p := start(t, build(t), "-shards", "0")
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d:\n%s", code, p.logged())
	}
}

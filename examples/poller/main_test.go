package main

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mandate-dev/mandate/examples/internal/exampletest"

	"go.yaml.in/yaml/v3"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

var must = servertest.Must

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// All of it in one go, with no server at all.
func TestDemo(t *testing.T) {
	if out, err := exampletest.Program(t, run); err != nil || !strings.Contains(out, "fed by 3 leaders; lost: 0, queued twice: 0") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// On real servers the leader is suspended and resumed, the queue's Redis restarts, and the leader
// is killed, each in the middle of whatever it does.
func TestRealFaults(t *testing.T) {
	server := servertest.Redis(t, servertest.AOF...)
	c, err := newCrew(t.Context(), t.Output(), t.TempDir(), servertest.Postgres(t), server.URL())
	must(t, err)
	defer c.close()
	do := func(errs ...error) {
		t.Helper()
		must(t, errors.Join(errs...))
	}
	do(c.Start("shop", "produce", "--rate", "200"), c.worker("worker-1"), c.worker("worker-2"), c.worker("worker-3"))
	first, err := c.leaderAfter(t.Context(), 0)
	do(err, c.Signal(first.Candidate, syscall.SIGSTOP))
	second, err := c.leaderAfter(t.Context(), first.Token)
	do(err, c.Signal(first.Candidate, syscall.SIGCONT))
	server.Restart(t)
	do(c.End(second.Candidate, syscall.SIGKILL))
	_, err = c.leaderAfter(t.Context(), second.Token)
	do(err, c.verify(t.Context()), c.EndAll())
}

// docker-compose.yml has three nodes and three workers, and its commands are ones that this program has.
func TestCompose(t *testing.T) {
	raw, err := os.ReadFile("../../docker-compose.yml")
	must(t, err)
	var file struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
			Deploy      struct{ Replicas int }
		}
	}
	must(t, yaml.Unmarshal(raw, &file))
	workers := file.Services["worker"]
	if n := strings.Count(workers.Environment["MANDATE_REDIS"], "redis://"); n != 3 || workers.Deploy.Replicas != 3 {
		t.Errorf("%d nodes, %d workers: want 3 and 3", n, workers.Deploy.Replicas)
	}
	t.Setenv("POLLER_DB", "postgres://127.0.0.1:1/x?connect_timeout=1")
	for name, command := range map[string]string{"worker": "work", "producer": "produce"} {
		args := file.Services[name].Command
		out, err := exampletest.Program(t, run, args...)
		if args[len(args)-1] != command || err == nil || !strings.HasPrefix(err.Error(), "the database:") {
			t.Errorf("%s: %q: %v\n%s", name, args, err, out)
		}
	}
}

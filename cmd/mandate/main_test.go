//go:build unix

package main

import (
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// TestMain lets the test binary stand in for the program itself, and for the
// helpers that it starts.
func TestMain(m *testing.M) {
	if supervise.Dispatch() {
		return
	}
	logging.Disable()
	// The scripts wait for leases and processes more than they work.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	all := map[string]func(){}
	for name, run := range programs() {
		all[name] = func() { os.Exit(run()) }
	}
	testscript.Main(foreground{m}, all)
}

// foreground is the tests as if they had been started in a terminal. Under nohup, or as a job in the background,
// they are started with signals ignored, and every program that they start would rightly ignore them, too: also
// those that the tests end by them.
type foreground struct{ *testing.M }

func (f foreground) Run() int {
	for _, s := range []os.Signal{syscall.SIGHUP, os.Interrupt} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTTIN, syscall.SIGTTOU) // of these Go does not know it
	return f.M.Run()
}

// program is the program itself. main exits with its own code.
func program() int {
	main()
	return 0
}

// TestScripts are the commands that need no real Redis.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true, Setup: setupSeen, Cmds: scriptCommands,
	})
}

// TestScriptsReal runs real commands under real elections on a real redis-server.
func TestScriptsReal(t *testing.T) {
	servertest.NeedRedis(t)
	if _, err := exec.LookPath("haproxy"); err != nil && os.Getenv("MANDATE_TEST_REQUIRE_HAPROXY") == "1" {
		t.Fatal("no haproxy on PATH, and MANDATE_TEST_REQUIRE_HAPROXY=1: install haproxy")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/real", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: setupScript, Cmds: scriptCommands,
	})
}

//go:build unix

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// firstProtocol is the first commit whose messages have a protocol number, for as long as there is no tag.
const firstProtocol = "a96314f0"

// previous: builds the program of the last tag before this commit, in $OLD. It needs the history: in a shallow clone,
// which nothing can mend from inside, it skips loudly.
func cmdPrevious(ts *testscript.TestScript, _ bool, _ []string) {
	v := valuesOf(ts)
	servertest.NeedProgram(v.t, "apt-get install git", "git")
	commit := firstProtocol
	if tag, err := inRoot("git", "describe", "--tags", "--abbrev=0", "--match=v*", "HEAD^").Output(); err == nil {
		commit = strings.TrimSpace(string(tag))
	}
	dir := ts.MkAbs("previous")
	ts.Check(os.Mkdir(dir, 0o700))
	archive := filepath.Join(dir, "source.tar")
	if out, err := inRoot("git", "archive", "-o", archive, commit).CombinedOutput(); err != nil {
		if shallow, _ := inRoot("git", "rev-parse", "--is-shallow-repository").Output(); strings.TrimSpace(string(shallow)) == "false" {
			ts.Fatalf("no %s in a clone with its history: %v %s", commit, err, out)
		}
		v.t.Skipf("SKIPPED: this clone has no %s: NOT tested beside the previous version (git fetch --unshallow --tags): %s", commit, out)
	}
	ts.Check(ts.Exec("tar", "-xf", archive, "-C", dir))
	build := inRoot("go", "build", "-o", ts.MkAbs("previous/mandate"), ".")
	build.Dir = filepath.Join(dir, "cmd/mandate")
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("building %s: %v\n%s", commit, err, out)
	}
	ts.Setenv("OLD", ts.MkAbs("previous/mandate"))
}

// otherprotocol: builds this program with another protocol number, in $OTHER.
func cmdOtherProtocol(ts *testscript.TestScript, _ bool, _ []string) {
	const file, number = "elector/internal/protocol/protocol.go", "const Version = 1\n"
	path, err := filepath.Abs(filepath.Join(root, file))
	ts.Check(err)
	source, err := os.ReadFile(path)
	ts.Check(err)
	if !strings.Contains(string(source), number) {
		ts.Fatalf("%s has no %q", file, number)
	}
	changed, overlay := ts.MkAbs("protocol.go.other"), ts.MkAbs("overlay.json")
	ts.Check(os.WriteFile(changed, []byte(strings.Replace(string(source), number, "const Version = 2\n", 1)), 0o600))
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	ts.Check(err)
	ts.Check(os.WriteFile(overlay, b, 0o600))
	build := inRoot("go", "build", "-overlay", overlay, "-o", ts.MkAbs("other"), ".")
	build.Dir = filepath.Join(root, "cmd/mandate")
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("building with another protocol number: %v\n%s", err, out)
	}
	ts.Setenv("OTHER", ts.MkAbs("other"))
}

// inRoot is a command in the repository, with the environment of the tests and not of the script.
func inRoot(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOFLAGS=-buildvcs=false -trimpath", "CGO_ENABLED=0")
	return cmd
}

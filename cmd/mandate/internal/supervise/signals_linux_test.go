package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// The command starts with the signals that this process was started with, whatever
// was caught or ignored since. make, for one, hands down an ignored signal 32.
func TestCommandInheritsNoSignals(t *testing.T) {
	const show = `grep -E '^Sig(Ign|Blk)' /proc/self/status`
	want, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", show).Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "status")
	p, _ := start(t, time.Hour, 0, show+" >"+file)
	<-p.Exited()
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
		t.Errorf("the command ignores or blocks %q, want %q (%v)", got, want, err)
	}
}

// The guard lives as long as the command, and must not keep the folder busy in which
// mandate was started: it could not be unmounted.
func TestGuardKeepsNoFolderBusy(t *testing.T) {
	t.Chdir(t.TempDir())
	p, _ := start(t, time.Hour, 1, "echo $$ >>$PIDS; exec sleep 1000")
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", p.GuardPID())); err != nil || dir != "/" {
		t.Errorf("the guard is in %q, %v", dir, err)
	}
}

package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
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
	p, _ := newHelper(t).run(t, 0, show+" >"+file)
	<-p.Exited
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
		t.Errorf("the command ignores or blocks %q, want %q (%v)", got, want, err)
	}
}

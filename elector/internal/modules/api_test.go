package modules

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What breaks callers is refused until the changelog names it: .ci/api on a small module of its own.
func TestAPIBreaksAreNamedIntegration(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".ci"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".ci/api", ".ci/tool"} {
		script, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(script))
	}
	write("go.mod", "module example.org/m\n\ngo 1.26\n")
	write("m.go", "package m\n\nfunc Kept() {}\n\nfunc Gone() {}\n")
	write("CHANGELOG.md", "## [Unreleased]\n\n## [0.1.0]\n\nGone is new.\n")
	api := func() string {
		cmd := exec.CommandContext(t.Context(), "bash", ".ci/api")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "refused: " + string(out)
		}
		return string(out)
	}
	git := func(args ...string) {
		run(t, dir, "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"}, args...)...)
	}
	git("init", "-q")
	git("add", "go.mod", "m.go", "CHANGELOG.md")
	git("commit", "-qm", "First")
	if got := api(); !strings.Contains(got, "no release yet") {
		t.Errorf("without a tag: %s", got)
	}
	git("tag", "v0.1.0")
	write("m.go", "package m\n\nfunc Kept() {}\n\nfunc Added() {}\n")
	if got := api(); !strings.HasPrefix(got, "refused") || !strings.Contains(got, "Gone: removed") || strings.Contains(got, "Added") {
		t.Errorf("a function is gone: %s", got)
	}
	write("CHANGELOG.md", "## [Unreleased]\n\n### Removed\n\n- `Gone`: call Kept.\n\n## [0.1.0]\n")
	if got := api(); strings.HasPrefix(got, "refused") || !strings.Contains(got, "v0.1.0") {
		t.Errorf("the changelog names it: %s", got)
	}
}

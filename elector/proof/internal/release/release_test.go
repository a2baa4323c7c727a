// Package release tests what a release gives to people, by two scripts: modules that go can fetch and install by their
// tags, without the `replace` and the go.work of this repository, and the files that `make release` builds.
package release

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

func TestModulesInstallReal(t *testing.T) { script(t, "modules.sh") }

func TestReleaseReal(t *testing.T) {
	servertest.NeedProgram(t, "apt-get install systemd", "systemd-analyze")
	servertest.NeedProgram(t, "a Debian machine", "dpkg-deb")
	script(t, "release.sh", servertest.Redis(t).URL())
}

// script runs a script of testdata in an empty folder.
func script(t *testing.T, name string, args ...string) {
	t.Helper()
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "elector/proof/internal/release/testdata", name)
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{file, root}, args...)...)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

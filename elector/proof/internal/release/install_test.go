// Package release tests what a release gives to people: modules that go can fetch and install by their tags, without
// the `replace` and the go.work of this repository, and the files that `make release` builds.
package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	root    = "../../../.."
	library = "github.com/mandate-dev/mandate"
	version = "v0.1.0"
)

func TestModulesInstallReal(t *testing.T) {
	env := published(t)
	module := func(t *testing.T, get, source string) (dir string) {
		t.Helper()
		dir = t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "service.go"), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, dir, env, "go", "mod", "init", "example.com/service")
		run(t, dir, env, "go", "get", get+"@"+version)
		run(t, dir, env, "go", "build", "./...")
		return dir
	}
	t.Run("library", func(t *testing.T) {
		dir := module(t, library+"/elector", readmeCode(t))
		if asked := run(t, dir, env, "go", "mod", "graph"); strings.Contains(asked, "spf13/cobra") {
			t.Error("who imports the library has cobra in the module graph")
		}
	})
	for _, adapter := range []string{"electorasynq", "electorgocron"} {
		t.Run(adapter, func(t *testing.T) {
			module(t, library+"/elector/"+adapter, "package service\n\nimport _ \""+library+"/elector/"+adapter+"\"\n")
		})
	}
}

// checkWorkspace wants go.work to select what `go install` does: else the binary that people get is not the tested one.
func checkWorkspace(t *testing.T, built string) {
	t.Helper()
	deps := regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(built, -1)
	if len(deps) < 10 {
		t.Fatalf("only %d modules in\n%s", len(deps), built)
	}
	for _, dep := range deps {
		if dep[1] == library {
			continue
		}
		if v := strings.TrimSpace(run(t, root, []string{"GOWORK="}, "go", "list", "-m", "-f", "{{.Version}}", dep[1])); v != dep[2] {
			t.Errorf("the tests run with %s %s, and go install takes %s: require %[2]s in cmd/mandate/go.mod", dep[1], v, dep[2])
		}
	}
}

// readmeCode is the README's first Go code in a package. (A program would be linked, too, which takes longer than the rest.)
func readmeCode(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(readme), "\n```go\n")
	code, _, _ = strings.Cut(code, "\n```\n")
	if !ok || !strings.Contains(code, "e.Run(ctx") {
		t.Fatal("the README embeds the library in no Go code")
	}
	return `package service

import (
	"context"
	"time"

	"` + library + `/elector"
	"` + library + `/health"
)

func poll(context.Context, *health.Heartbeat, uint64) error { return nil }

func lead(ctx context.Context) error {
` + code + `
}
`
}

// published publishes the checkout, and returns the environment in which go takes its modules from there.
func published(t *testing.T) (env []string) {
	t.Helper()
	return strings.Split(strings.TrimSpace(run(t, root, nil, ".ci/published", t.TempDir(), version)), "\n")
}

func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, &errs)
	}
	return string(out)
}

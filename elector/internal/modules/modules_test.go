// Package modules tests what importing the library brings into other people's
// module graphs, and that a release can be installed. CONTRIBUTING.md has the list
// of the modules of this repository and the reasons.
package modules

import (
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/semver"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

var must = servertest.Must

const (
	root    = "../../.."
	library = "github.com/mandate-dev/mandate"
)

// What `go get` of the library does to a program that has most of its dependencies
// already. MVS takes the highest version that anybody asks for, and those who ask are
// our go.mod and the go.mod of what is linked (the rest of the graph is pruned).
func TestGoGetMovesFewModules(t *testing.T) {
	asked := map[string]string{}
	linked := map[string]bool{library: true}
	for _, m := range strings.Fields(run(t, root, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./elector/...", "./health/...")) {
		linked[m] = true
	}
	for line := range strings.Lines(run(t, root, "go", "mod", "graph")) {
		who, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		path, version, _ := strings.Cut(what, "@")
		if by, _, _ := strings.Cut(who, "@"); linked[by] && semver.Compare(version, asked[path]) > 0 {
			asked[path] = version
		}
	}
	service, err := os.ReadFile("testdata/service.txt")
	must(t, err)
	var moved []string
	for line := range strings.Lines(string(service)) {
		if path, version, _ := strings.Cut(strings.TrimSpace(line), " "); semver.Compare(asked[path], version) > 0 && path != "#" {
			moved = append(moved, path)
			t.Logf("%s %s => %s", path, version, asked[path])
		}
	}
	want := []string{"github.com/alicebob/miniredis/v2", "github.com/redis/go-redis/v9", "github.com/stretchr/testify", "golang.org/x/sync", "golang.org/x/sys"}
	if !slices.Equal(moved, want) {
		t.Errorf("importing the library moves %q, want %q: require a lower version, if it works", moved, want)
	}
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, &errs)
	}
	return string(out)
}

// What breaks callers is refused until the changelog names it: .ci/api on a small module of its own.
func TestAPIBreaksAreNamedIntegration(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o700))
	}
	must(t, os.Mkdir(filepath.Join(dir, ".ci"), 0o700))
	for _, name := range []string{".ci/api", ".ci/tool"} {
		script, err := os.ReadFile(filepath.Join(root, name))
		must(t, err)
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

// What the code in the README takes for given: packages, variables, and functions of the reader.
var (
	packagesOfBlocks = map[string]string{
		"context": "context", "time": "time", "logging": "github.com/redis/go-redis/v9/logging", "prometheus": "github.com/prometheus/client_golang/prometheus", "electorprom": library + "/elector/electorprom",
		"resolver": "google.golang.org/grpc/resolver", "manual": "google.golang.org/grpc/resolver/manual",
		"health": library + "/health", "healthhttp": library + "/health/healthhttp", "elector": library + "/elector",
	}
	variablesOfBlocks = map[string]string{
		"ctx": "context.Context", "q": "*elector.Quorum", "e": "*elector.Elector",
		"poll":   "func(context.Context, *health.Heartbeat, uint64) error",
		"step":   "func(context.Context, uint64) error",
		"orders": "*elector.Election", "leader": "*manual.Resolver",
	}
)

// Every Go block of README and docs compiles.
func TestBlocksOfGoCompile(t *testing.T) {
	root, err := filepath.Abs("../../..")
	must(t, err)
	docs, _ := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	dir, overlay, args := t.TempDir(), map[string]string{}, []string{"build", "-overlay", ""}
	for _, doc := range append(docs, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(doc)
		must(t, err)
		for i, block := range strings.Split(string(text), "\n```go\n")[1:] {
			block, _, _ = strings.Cut(block, "\n```\n")
			name := fmt.Sprintf("%s%d", strings.TrimSuffix(filepath.Base(doc), ".md"), i)
			module := "elector/internal/modules"
			if strings.Contains(block, "resolver.") {
				module = "examples" // which requires gRPC
			}
			source := program(block)
			if formatted, err := format.Source([]byte(source)); err != nil || strings.HasPrefix(block, "package ") && string(formatted) != source {
				t.Errorf("%s: gofmt has it otherwise: %v\n%s", name, err, formatted)
			}
			file := filepath.Join(dir, name+".go")
			must(t, os.WriteFile(file, []byte(source), 0o600))
			overlay[filepath.Join(root, module, "blocks", name, "file.go")] = file
			args = append(args, "./"+module+"/blocks/"+name)
		}
	}
	if len(args) < 3+4 {
		t.Errorf("too few blocks: %v", args)
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	must(t, err)
	args[2] = filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(args[2], list, 0o600))
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// The packages and symbols that README and docs link on pkg.go.dev exist.
func TestLinkedSymbolsExist(t *testing.T) {
	link, seen := regexp.MustCompile(`https://pkg\.go\.dev/(`+library+`/[\w/]+)(?:#([\w.]+))?\)`), map[string]bool{}
	docs, _ := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	for _, doc := range append(docs, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(doc)
		must(t, err)
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if seen[m[0]] {
				continue
			}
			seen[m[0]] = true
			cmd := exec.CommandContext(t.Context(), "go", append([]string{"doc"}, strings.Fields(m[1]+" "+m[2])...)...)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s links %s: %s", doc, m[0], out)
			}
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d links", len(seen))
	}
}

// program makes a file of a block: one that has its imports, or the body of a function.
func program(block string) string {
	if strings.HasPrefix(block, "package ") {
		return block + "\n"
	}
	var parameters, imports []string
	for name, kind := range variablesOfBlocks {
		if uses(block, name+`\b`) && !uses(block, name+`, err :=`) {
			parameters = append(parameters, name+" "+kind)
		}
	}
	slices.Sort(parameters)
	if !strings.Contains(block, "return e.Run") && !strings.Contains(block, "return m.Run") {
		block += "\nreturn nil"
	}
	body := "func _(" + strings.Join(parameters, ", ") + ") error {\n" + block + "\n}"
	for name, path := range packagesOfBlocks {
		if uses(body, name+`\.[A-Z]`) {
			imports = append(imports, fmt.Sprintf("import %q", path))
		}
	}
	return "package blocks\n\n" + strings.Join(imports, "\n") + "\n\n" + body + "\n"
}

// uses reports whether a word of a source begins so.
func uses(source, pattern string) bool { return regexp.MustCompile(`\b` + pattern).MatchString(source) }

package modules

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the code in documents takes for given: packages, variables, and functions of the reader.
var (
	packagesOfBlocks = map[string]string{
		"asynq": "github.com/hibiken/asynq", "cron": "github.com/robfig/cron/v3", "gocron": "github.com/go-co-op/gocron/v2", "redis": "github.com/redis/go-redis/v9",
		"context": "context", "errors": "errors", "slog": "log/slog", "sql": "database/sql", "time": "time",
		"health": "github.com/mandate-dev/mandate/health", "elector": "github.com/mandate-dev/mandate/elector",
	}
	variablesOfBlocks = map[string]string{
		"ctx": "context.Context", "q": "*elector.Quorum", "e": "*elector.Elector", "client": "redis.UniversalClient", "scheduler": "gocron.Scheduler",
		"queue": "*asynq.Client", "berlin": "*time.Location", "db": "*sql.DB",
		"sendMail": "func(ctx context.Context, run schedule.Run) error",
		"poll":     "func(context.Context, *health.Heartbeat, uint64) error",
		"serve":    "func(context.Context, int, uint64) error",
	}
)

// Every Go block of README and docs compiles, but for two whose modules none of ours requires.
func TestBlocksOfGoCompile(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	docs, _ := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	dir, overlay, compiled := t.TempDir(), map[string]string{}, 0
	for _, doc := range append(docs, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "\n```go\n")[1:] {
			block, _, _ = strings.Cut(block, "\n```\n")
			name := fmt.Sprintf("%s%d", strings.TrimSuffix(filepath.Base(doc), ".md"), i)
			module := "elector/internal/modules"
			switch {
			case strings.Contains(block, "gocron."):
				module = "elector/electorgocron"
			case strings.Contains(block, "asynq."), strings.Contains(block, "cron."):
				module = "elector/electorasynq"
			}
			source := program(block)
			if _, err := parser.ParseFile(token.NewFileSet(), name, source, 0); err != nil {
				t.Errorf("%s: %v\n%s", name, err, source)
			}
			if strings.Contains(block, "resolver.") || strings.Contains(block, "otel.") {
				continue
			}
			file := filepath.Join(dir, name+".go")
			if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay[filepath.Join(root, module, "blocks", name+".go")] = file
			compiled++
		}
	}
	if compiled < 7 {
		t.Errorf("%d blocks", compiled)
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"),
		"./elector/internal/modules/blocks", "./elector/electorgocron/blocks", "./elector/electorasynq/blocks")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// program makes a file of a block: its functions, or a function with what it does.
func program(block string) string {
	uses := func(name string) bool { return regexp.MustCompile(`\b` + name + `\b`).MatchString(block) }
	declared := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([\w, ]+) := `).FindAllStringSubmatch(block, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			declared[name] = name != "_"
		}
	}
	var parameters []string
	for name, kind := range variablesOfBlocks {
		if uses(name) && !declared[name] {
			parameters = append(parameters, name+" "+kind)
		}
	}
	slices.Sort(parameters)
	body := strings.TrimSpace(block)
	if !strings.HasPrefix(body, "func ") && !strings.HasPrefix(body, "//") {
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range declared {
				if declared[name] && !yield(name) {
					return
				}
			}
		}) {
			body = strings.Replace(body, "\nreturn ", "\n_ = "+name+"\nreturn ", 1)
			if !strings.Contains(body, "_ = "+name+"\n") {
				body += "\n_ = " + name
			}
		}
		if declared["err"] {
			body = strings.TrimPrefix(body, "_ = err\n")
		} else {
			body = "var err error\n" + body
		}
		body = "func _(" + strings.Join(parameters, ", ") + ") error {\n" + body + "\nreturn err\n}"
	}
	var imports []string
	for name := range packagesIn(body) {
		path, ok := packagesOfBlocks[name]
		if !ok {
			path = "github.com/mandate-dev/mandate/elector/" + name
		}
		imports = append(imports, fmt.Sprintf("import %s %q", name, path))
	}
	slices.Sort(imports)
	return "package blocks\n\n" + strings.Join(imports, "\n") + "\n\n" + body + "\n"
}

// packagesIn returns the packages that a source uses.
func packagesIn(source string) map[string]bool {
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:^|[^.\w"])([a-z]+)\.[A-Z]`).FindAllStringSubmatch(source, -1) {
		_, known := packagesOfBlocks[m[1]]
		if known || slices.Contains([]string{"fence", "schedule", "shard", "electorgocron", "electorasynq"}, m[1]) {
			names[m[1]] = true
		}
	}
	return names
}

package modules

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// People install the command from a release with `go install`, which refuses a module
// that replaces others. The release is one of this checkout, on a proxy of files; -n
// stops before the compiler, when everything is resolved.
func TestCommandInstallsFromARelease(t *testing.T) {
	const version = "v0.999.0"
	proxy := filepath.Join(t.TempDir(), filepath.FromSlash(library), "@v")
	if err := os.MkdirAll(proxy, 0o700); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"list": version, version + ".info": fmt.Sprintf(`{"Version":%q}`, version), version + ".mod": string(mod)} {
		if err := os.WriteFile(filepath.Join(proxy, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pack(t, filepath.Join(proxy, version+".zip"), library+"@"+version+"/")

	// A module cache of its own, filled from ours: the release must not stay there.
	top := strings.TrimSuffix(proxy, filepath.Join(filepath.FromSlash(library), "@v"))
	downloaded := filepath.Join(strings.TrimSpace(run(t, ".", "go", "env", "GOMODCACHE")), "cache", "download")
	cmd := exec.CommandContext(t.Context(), "go", "install", "-n", library+"/cmd/mandate@"+version)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOMODCACHE="+t.TempDir(), "GOBIN="+t.TempDir(),
		"GOPROXY=file://"+filepath.ToSlash(top)+",file://"+filepath.ToSlash(downloaded)+","+strings.TrimSpace(run(t, ".", "go", "env", "GOPROXY")))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), library+"@"+version) {
		t.Errorf("it did not build the release:\n%s", out)
	}
}

// pack makes the zip of the top module as a proxy has it: without nested modules.
func pack(t *testing.T, name, prefix string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			if nested == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "docs" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		w, err := z.Create(prefix + filepath.ToSlash(rel))
		if err != nil {
			return err
		}
		src, err := os.Open(path)
		if err != nil {
			return err
		}
		defer src.Close()
		_, err = io.Copy(w, src)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

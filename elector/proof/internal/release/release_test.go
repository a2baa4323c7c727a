package release

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// checkout is a clone of the repository as it is, committed or not, in which a release can be made.
type checkout struct {
	t   *testing.T
	dir string
}

func clone(t *testing.T) checkout {
	t.Helper()
	published := t.TempDir()
	run(t, root, nil, ".ci/published", published, version)
	c := checkout{t: t, dir: filepath.Join(t.TempDir(), "mandate")}
	run(t, root, nil, "git", "clone", "-q", "--no-tags", filepath.Join(published, "repo"), c.dir)
	return c
}

func (c checkout) git(args ...string) string {
	c.t.Helper()
	return run(c.t, c.dir, nil, "git", append([]string{"-c", "user.name=test", "-c", "user.email=test@localhost"}, args...)...)
}

// commit replaces text in a file.
func (c checkout) commit(file, from, to string) {
	c.t.Helper()
	c.write(file, from, to)
	c.git("commit", "-q", "-a", "-m", "change "+file)
}

func (c checkout) write(file, from, to string) {
	c.t.Helper()
	path := filepath.Join(c.dir, file)
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), from) {
		c.t.Fatalf("%q is not in %s (%v)", from, path, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

func (c checkout) release(version string) (out string, err error) {
	cmd := exec.CommandContext(c.t.Context(), "make", "release", "VERSION="+version)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "TARGETS=linux/"+runtime.GOARCH)
	b, err := cmd.CombinedOutput()
	return string(b), err
}

func (c checkout) sums() string {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(c.dir, "dist/SHA256SUMS"))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

func TestReleaseReal(t *testing.T) {
	servertest.NeedProgram(t, "apt-get install systemd", "systemd-analyze")
	servertest.NeedProgram(t, "a Debian machine", "dpkg-deb")
	c := clone(t)
	refused := func(version, why string) {
		t.Helper()
		if out, err := c.release(version); err == nil || !strings.Contains(out, why) {
			t.Errorf("VERSION=%s: %v, want it refused with %q:\n%s", version, err, why, out)
		}
		if _, err := os.Stat(filepath.Join(c.dir, "dist")); err == nil {
			t.Error("a refused release has left dist/")
		}
	}
	refused("0.1", "give a semantic version")
	refused(version, "CHANGELOG.md has no section")
	c.write("LICENSE", "Apache", "A patch")
	refused(version, "not committed")
	c.git("checkout", "-q", "LICENSE")
	c.git("tag", "cmd/mandate/"+version)
	refused(version, "the tag cmd/mandate/"+version+" exists")
	c.git("tag", "-d", "cmd/mandate/"+version)
	refused("v0.2.0", "requires another version of the library")
	c.commit("CHANGELOG.md", "## [Unreleased]", "## [Unreleased]\n\n## [0.1.0] - 2026-11-26")
	if out, err := c.release(version); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tags := strings.Fields(c.git("tag"))
	if want := []string{"cmd/mandate/v0.1.0", "elector/electorasynq/v0.1.0", "elector/electorgocron/v0.1.0", "v0.1.0"}; !slices.Equal(tags, want) {
		t.Errorf("tags %q, want %q", tags, want)
	}
	checkBill(t, c)
	checkDeb(t, c)
	checkImage(t, c)

	// What the compiler made is the same by its cache; what is linked and packed is made again, elsewhere.
	first := c.sums()
	c.git(append([]string{"tag", "-d"}, tags...)...)
	before := c.dir
	c.dir = filepath.Join(t.TempDir(), "elsewhere")
	run(t, root, nil, "cp", "-a", before, c.dir)
	t.Setenv("TZ", "Pacific/Auckland")
	if out, err := c.release(version); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if second := c.sums(); first != second {
		t.Errorf("built twice, not the same:\n%s\n%s", first, second)
	}
}

// checkBill wants a bill of materials that names what is linked.
func checkBill(t *testing.T, c checkout) {
	t.Helper()
	var bill struct {
		BOMFormat  string
		Components []struct{ Name, Version, PURL string }
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "dist/mandate_0.1.0.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(bill.Components))
	for _, component := range bill.Components {
		names = append(names, component.Name)
	}
	for _, name := range []string{"stdlib", "github.com/redis/go-redis/v9", "github.com/spf13/cobra", "golang.org/x/crypto/x509roots/fallback"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not in the bill of materials: %q", name, names)
		}
	}
}

// descriptor names a blob of an image.
type descriptor struct {
	Digest   string
	Platform struct{ Architecture string }
}

// checkImage runs what is in the image as its user, with nothing around it.
func checkImage(t *testing.T, c checkout) {
	t.Helper()
	dir := t.TempDir()
	run(t, c.dir, nil, "tar", "-xf", "dist/mandate_0.1.0_image.tar", "-C", dir)
	type document struct {
		Manifests, Layers []descriptor
		Config            json.RawMessage
	}
	read := func(path string) (d document) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		return d
	}
	blob := func(d descriptor) string { return "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:") }
	run(t, filepath.Join(dir, "blobs/sha256"), nil, "sh", "-c", `for f in *; do echo "$f  $f"; done | sha256sum -c --quiet`)
	images := read(blob(read("index.json").Manifests[0])).Manifests
	if len(images) != 1 || images[0].Platform.Architecture != runtime.GOARCH {
		t.Fatalf("images %v", images)
	}
	manifest := read(blob(images[0]))
	var config descriptor
	if err := json.Unmarshal(manifest.Config, &config); err != nil {
		t.Fatal(err)
	}
	if settings := string(read(blob(config)).Config); !strings.Contains(settings, `"User": "65532:65532"`) || !strings.Contains(settings, `["/usr/bin/mandate"]`) {
		t.Errorf("the image's configuration: %s", settings)
	}
	if os.Geteuid() != 0 {
		t.Log("not root: nothing of the image is run")
		return
	}
	files := filepath.Join(dir, "root")
	run(t, dir, nil, "mkdir", "-m", "755", files)
	run(t, dir, nil, "tar", "-xf", blob(manifest.Layers[0]), "-C", files)
	redis := servertest.Redis(t)
	if out := run(t, dir, nil, "chroot", "--userspec=65532:65532", files, "/usr/bin/mandate", "ls", "--json", "--redis", redis.URL()); out != "[]\n" {
		t.Errorf("mandate ls: %q, want no election", out)
	}
}

// checkDeb installs the package in a folder of its own.
func checkDeb(t *testing.T, c checkout) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "var/lib/dpkg/updates"), 0o750); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"var/lib/dpkg/status", "var/lib/dpkg/available"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	deb := "dist/mandate_0.1.0_" + runtime.GOARCH + ".deb"
	if os.Geteuid() == 0 {
		run(t, c.dir, nil, "dpkg", "--root="+dir, "--force-not-root", "--log="+filepath.Join(dir, "log"), "-i", deb)
	} else { // dpkg would change root
		run(t, c.dir, nil, "dpkg-deb", "-x", deb, dir)
	}
	if out := run(t, dir, nil, "usr/bin/mandate", "--version"); !strings.HasPrefix(out, "mandate "+version+" ") {
		t.Errorf("mandate --version: %s", out)
	}
	checkWorkspace(t, run(t, dir, nil, "go", "version", "-m", "usr/bin/mandate"))
	if info, err := os.Stat(filepath.Join(dir, "etc/default/mandate")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("/etc/default/mandate: %v, %v", info, err)
	}
	if page := run(t, dir, nil, "gzip", "-dc", "usr/share/man/man1/mandate.1.gz"); !strings.Contains(page, `.SH "mandate run"`) {
		t.Error("the man page does not explain mandate run")
	}
	// systemd reports a command that is not there.
	if err := os.WriteFile(filepath.Join(dir, "etc/mandate/reports"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(dir, "usr/lib/systemd/system/mandate@.service")
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer(" /usr/bin/mandate", " "+dir+"/usr/bin/mandate", "=/usr/bin/mandate", "="+dir+"/usr/bin/mandate", " /etc/mandate/", " "+dir+"/etc/mandate/").Replace(string(text))
	instance := filepath.Join(t.TempDir(), "mandate@reports.service")
	if err := os.WriteFile(instance, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, dir, nil, "systemd-analyze", "verify", "--man=no", instance); out != "" {
		t.Errorf("systemd-analyze: %s", out)
	}
}

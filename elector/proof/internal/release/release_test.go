// Package release tests what a release gives to people, by two scripts: modules that go can fetch and install by their
// tags, without the `replace` and the go.work of this repository, and the files that `make release` builds.
package release

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

func TestModulesInstallReal(t *testing.T) { script(t, "modules.sh") }

func TestReleaseReal(t *testing.T) {
	servertest.NeedProgram(t, "apt-get install systemd", "systemd-analyze")
	servertest.NeedProgram(t, "a Debian machine", "dpkg-deb")
	script(t, "release.sh", servertest.Redis(t).URL())
}

// The release has the text of each license, also of what a module has copied, and refuses a module without one, or with
// one that nobody has looked at.
func TestLicenses(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software and associated documentation files"
	good := map[string]string{"LICENSE": mit, "NOTICE.txt": "a notice", "copied/LICENSE-BSD": "Redistribution and use in source and binary forms", "license.go": "package m"}
	licenses := func(files map[string]string) (texts, ids string, err error) {
		dir, out := t.TempDir(), filepath.Join(t.TempDir(), "ids")
		for name, text := range files {
			servertest.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
			servertest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		cmd := exec.CommandContext(t.Context(), "bash", "../../../../.ci/licenses", out)
		cmd.Stdin = strings.NewReader("example.com/m v1.2.3 " + dir + "\n")
		printed, err := cmd.Output()
		named, _ := os.ReadFile(out)
		return string(printed), string(named), err
	}
	texts, ids, err := licenses(good)
	if err != nil || ids != "example.com/m v1.2.3 BSD-2-Clause MIT\n" || !strings.Contains(texts, mit) || !strings.Contains(texts, "a notice") {
		t.Errorf("%v, %q\n%s", err, ids, texts)
	}
	for name, text := range map[string]string{"LICENSE": "Pay me", "copied/COPYING": "", "copied/LICENSE-BSD": "No.", "COPYRIGHT": mit + "\n\"Commons Clause\" License Condition"} {
		bad := maps.Clone(good)
		bad[name] = text
		if _, ids, err := licenses(bad); err == nil || ids != "" {
			t.Errorf("%s: %q is accepted: %s", name, text, ids)
		}
	}
	for _, files := range []map[string]string{{"README": mit}, {"NOTICE": mit}, {"license.go": mit}, {}} {
		if _, ids, err := licenses(files); err == nil || ids != "" {
			t.Errorf("%v is accepted: %s", files, ids)
		}
	}
}

// script runs a script of testdata in an empty folder.
func script(t *testing.T, name string, args ...string) {
	t.Helper()
	root, err := filepath.Abs("../../../..")
	servertest.Must(t, err)
	file := filepath.Join(root, "elector/proof/internal/release/testdata", name)
	cmd := exec.CommandContext(t.Context(), "bash", append([]string{file, root}, args...)...)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

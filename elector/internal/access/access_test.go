package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

func write(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	servertest.Must(t, os.WriteFile(name, []byte(content), 0o600))
	return name
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{"secret": "secret", "secret\n": "secret", "secret\r\n": "secret", " a b \n": " a b "} {
		f := Files{Password: write(t, content)}
		if got, err := f.ReadPassword(); err != nil || got != want || f.Check() != nil {
			t.Errorf("%q was read as %q, %v", content, got, err)
		}
	}
}

// What is wrong with a file is named, and what it holds is not.
func TestProblemsOfACredentialsFile(t *testing.T) {
	t.Parallel()
	missing, dir := filepath.Join(t.TempDir(), "missing"), t.TempDir()
	junk, two := write(t, "tops3cret"), write(t, "tops3cret\nand more")
	for _, tc := range []struct {
		files Files
		says  []string
	}{
		{Files{Password: missing}, []string{"the password file can't be read", missing, "no such file"}},
		{Files{Password: dir}, []string{"the password file can't be read", dir, "is a directory"}},
		{Files{Password: write(t, "\n")}, []string{"is empty"}},
		{Files{Password: two}, []string{two, "more than one line"}},
		{Files{Password: write(t, strings.Repeat("tops3cret", 1<<20))}, []string{"larger than 1 MiB"}},
		{Files{CA: missing}, []string{"the CA file can't be read", missing}},
		{Files{CA: junk}, []string{junk, "holds no certificate"}},
		{Files{Cert: junk}, []string{"name both files"}},
		{Files{Key: junk}, []string{"name both files"}},
		{Files{Cert: missing, Key: dir}, []string{"the certificate file", missing, "the key file", dir}},
		{Files{Cert: junk, Key: junk}, []string{"the certificate " + junk, "PEM"}},
		{Files{Password: missing, CA: missing}, []string{"the password file", "the CA file"}},
	} {
		err := tc.files.Check()
		if err == nil {
			t.Errorf("%+v: accepted", tc.files)
			continue
		}
		for _, says := range tc.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%+v: says %q, want %q", tc.files, err, says)
			}
		}
		if strings.Contains(err.Error(), "tops3cret") {
			t.Errorf("%+v: quotes what it read: %v", tc.files, err)
		}
	}
}

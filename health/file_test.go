package health

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestFileAge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alive")
	p := FileAge(path, time.Minute)
	err := p.Check(t.Context())
	if err == nil || err.Error() != path+": file does not exist" {
		t.Error(err)
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Error("not os.ErrNotExist")
	}
	for _, c := range []struct {
		age  time.Duration
		want string
	}{
		{0, ""},
		{50 * time.Second, ""},
		{-50 * time.Second, ""},
		{time.Minute, "has not changed for 1m0s (bound 1m0s)"},
		{-2 * time.Minute, "in the future"},
	} {
		must(t, os.WriteFile(path, nil, 0o600))
		at := time.Now().Add(-c.age)
		must(t, os.Chtimes(path, at, at))
		err := p.Check(t.Context())
		if c.want == "" && err != nil {
			t.Errorf("age %s: %v", c.age, err)
		}
		if c.want != "" {
			wantMessage(t, err, c.want)
		}
		if isDefinite(err) != (c.age >= time.Minute) {
			t.Errorf("age %s: definite %v", c.age, isDefinite(err))
		}
	}
	wantMessage(t, FileAge(path, 0).Check(t.Context()), "above zero")
}

// What no file can be made in fails with an error that says so forever; what is well is left empty.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, Disk(dir).Check(t.Context()))
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	missing := filepath.Join(dir, "nosuch")
	for path, want := range map[string]error{missing: os.ErrNotExist, file: syscall.ENOTDIR} {
		p := Disk(path)
		err := p.Check(t.Context())
		if !errors.Is(err, want) || err.Error() != path+": open: "+want.Error() && path == file {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if again := p.Check(t.Context()); again.Error() != err.Error() {
			t.Errorf("another text each time: %q, %q", err, again)
		}
	}
	wantMessage(t, Disk("").Check(t.Context()), "has no directory")
}

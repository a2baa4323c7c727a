package health

import (
	"errors"
	"os"
	"path/filepath"
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

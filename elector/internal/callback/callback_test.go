package callback_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/callback"
)

func TestCall(t *testing.T) {
	for name, c := range map[string]struct {
		f    func() error
		want string // "": no error
	}{
		"returns":            {func() error { return nil }, ""},
		"fails":              {func() error { return errors.New("no disk") }, "no disk"},
		"panics":             {func() error { panic("cache") }, "panic: cache"},
		"ends its goroutine": {func() error { runtime.Goexit(); return nil }, "runtime.Goexit was called"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := callback.Call(c.f); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Package testfence is what the tests of fence ask of its errors, on Redis and on SQL.
package testfence

import (
	"errors"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector/fence"
)

// WantStale wants the refusal of a token after a newer one.
func WantStale(t *testing.T, err error, token, newest uint64) {
	t.Helper()
	stale, ok := errors.AsType[*fence.StaleError](err)
	if !ok || !errors.Is(err, fence.ErrStale) {
		t.Fatalf("token %d after %d: %v, want ErrStale", token, newest, err)
	}
	if errors.Is(err, fence.ErrForeignMark) || stale.Token != token || stale.Newest != newest || stale.Resource == "" {
		t.Fatalf("the particulars are %+v, want token %d, newest %d", stale, token, newest)
	}
}

// WantForeign wants the refusal of a mark that fence did not write.
func WantForeign(t *testing.T, err error, token uint64, resource, holds string) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.Is(err, fence.ErrForeignMark) || !errors.As(err, &stale) {
		t.Fatalf("token %d, the mark holds %s: %v, want ErrForeignMark", token, holds, err)
	}
	if want := (fence.StaleError{Resource: resource, Token: token, Foreign: holds}); *stale != want {
		t.Errorf("the particulars are %+v, want %+v", *stale, want)
	}
	if !strings.Contains(err.Error(), resource) || !strings.Contains(err.Error(), holds) {
		t.Errorf("says %q", err)
	}
}

package elector

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// Nothing to run is refused before anybody is elected for it.
func TestRunRefusesWhatCantWork(t *testing.T) {
	if err := offline(t, 1).Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "work is nil") {
		t.Errorf("Run without work: %v", err)
	}
}

// Whoever ended the context of Run may say why: the cause reaches the work.
func TestShutdownKeepsTheCause(t *testing.T) {
	drained := errors.New("the node is drained")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(drained)
	if got := shutdownCause(ctx); !errors.Is(got, drained) {
		t.Errorf("%v", got)
	}
	ended := &Ended{Reason: ReasonShutdown, Err: drained}
	if !errors.Is(ended, drained) || ended.detail() != "" {
		t.Errorf("%v, %q", ended, ended.detail())
	}
	plain, stop := context.WithCancel(t.Context())
	stop()
	if got := shutdownCause(plain); got != nil {
		t.Errorf("a plain cancel says %v", got)
	}
}

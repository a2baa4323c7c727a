package elector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
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

// offline is a candidate of some nodes to which it has no connection, with a lease of
// 10 s.
func offline(t *testing.T, nodes int) *Elector {
	t.Helper()
	e, err := New(offlineQuorum(t, nodes), Config{Election: "orders", ID: "me"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func offlineQuorum(t *testing.T, nodes int) *Quorum {
	t.Helper()
	var clients []redis.UniversalClient
	for i := range nodes {
		cl := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", 7001+i)})
		t.Cleanup(func() { cl.Close() })
		clients = append(clients, cl)
	}
	q, err := NewQuorum(clients...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

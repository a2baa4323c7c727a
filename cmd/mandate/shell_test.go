package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// campaign runs a candidate until the end of the test, or until the returned function is called.
func campaign(t *testing.T, url, election, id string, change ...func(*elector.Config)) (e *elector.Elector, stop func()) {
	t.Helper()
	q, err := elector.Open(strings.Split(url, ",")...)
	if err != nil {
		t.Fatal(err)
	}
	cfg := elector.Config{Election: election, ID: id, Lease: time.Minute, Cooldown: -1, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	e, err = elector.New(q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- e.Run(ctx, new(elector.Gate).Work)
	}()
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = q.Close()
	}
	t.Cleanup(stop)
	return e, stop
}

// shell runs commands on one Redis, or on several.
type shell struct {
	t   *testing.T
	url string // several with commas
}

// nodes are the flags that name them.
func (s shell) nodes() (flags []string) {
	for url := range strings.SplitSeq(s.url, ",") {
		flags = append(flags, "--redis", url)
	}
	return flags
}

func (s shell) run(want int, args ...string) (out, errs string) {
	s.t.Helper()
	var o, e captured
	if code := execute(s.t.Context(), append(args, s.nodes()...), &o, &e); code != want {
		s.t.Errorf("%q: exit code %d, want %d\n%s%s", args, code, want, o.String(), e.String())
	}
	return o.String(), e.String()
}

// shows fails unless a command prints all of these.
func (s shell) shows(want int, line string, texts ...string) {
	s.t.Helper()
	out, errs := s.run(want, strings.Fields(line)...)
	flat := strings.Join(strings.Fields(out+errs), " ")
	for _, text := range texts {
		if !strings.Contains(flat, text) {
			s.t.Errorf("%s: no %q in\n%s%s", line, text, out, errs)
		}
	}
}

// captured is what a command has written, maybe from a goroutine that outlives it.
type captured = servertest.Logbook

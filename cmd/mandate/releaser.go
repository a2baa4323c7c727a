package main

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/supervisor"
)

// secrets are what the releaser process needs to know and what no command line or environment may
// contain.
type secrets struct {
	URLs []string
	// Assigner is the assigner election of a group. It has no command: its work ends with mandate.
	Assigner string
}

// openReleaser makes the pipe on which this process reports its terms, before the elector is made.
// Without the pipe, a crash costs the rest of the lease. If this process is supervised itself, its
// supervisor knows when all of its processes are gone, and no pipe is made. The caller calls forget
// once the elector has taken the pipe out of the environment, or was not made: programs started
// later must not take the pipe for their own.
func (a *app) openReleaser() (forget func()) {
	if _, supervised := os.LookupEnv(supervisor.Variable); supervised {
		return func() {}
	}
	r, err := supervise.NewReleaser()
	if err == nil {
		err = os.Setenv(supervisor.Variable, r.Pipe())
	}
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			a.log.Warn("no releaser process; after a crash the lease lapses", "error", err)
		}
		return func() {}
	}
	a.releaser = r
	return func() { _ = os.Unsetenv(supervisor.Variable) }
}

// withAbsoluteFiles returns the URLs for a process with another working directory.
func withAbsoluteFiles(urls []string) []string {
	urls = slices.Clone(urls)
	for i, text := range urls {
		u, err := url.Parse(text)
		if err != nil {
			continue
		}
		query, changed := u.Query(), false
		for _, param := range []string{"password_file", "ca_file", "cert_file", "key_file"} {
			if file := query.Get(param); file != "" && !filepath.IsAbs(file) {
				if file, err := filepath.Abs(file); err == nil {
					query.Set(param, file)
					changed = true
				}
			}
		}
		if changed {
			u.RawQuery = query.Encode()
			urls[i] = u.String()
		}
	}
	return urls
}

// startReleaser starts the releaser process. A warning is logged if that process ends before the
// returned function is called.
func (a *app) startReleaser(s secrets) (end func()) {
	r := a.releaser
	if r == nil {
		return func() {}
	}
	if err := r.Start(s); err != nil {
		a.log.Warn("no releaser process; after a crash the lease lapses", "error", err)
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-ended:
		case <-r.Gone():
			a.log.Warn("releaser process was killed; after a crash the lease lapses")
		}
	}()
	return func() { close(ended) }
}

// termName names a term for the reaper of its command and for the releaser.
func termName(election string, token uint64) string {
	return strconv.FormatUint(token, 10) + " " + election
}

// ledger is what the releaser has read: the terms of mandate, and the reports of the reapers.
type ledger struct {
	terms supervisor.Terms
	gone  map[string]bool // by termName
}

func (l *ledger) follow(pipe io.Reader) error {
	l.gone = map[string]bool{}
	return l.terms.Follow(pipe, func(line []byte) {
		if term, ok := supervise.Gone(line); ok {
			l.gone[term] = true
		}
	})
}

// free returns the terms of a dead mandate of which no process is left: those that a reaper has
// reported as gone, and that of the assigner, which had no command.
func (l *ledger) free(assigner string) *supervisor.Terms {
	l.terms.Keep(func(election string, token uint64) bool {
		return l.gone[termName(election, token)] || assigner != "" && election == assigner
	})
	return &l.terms
}

// releaserMain is the main function of the releaser process.
func releaserMain() {
	var s secrets
	var l ledger
	if !supervise.Releasing(&s, l.follow) {
		return
	}
	terms := l.free(s.Assigner)
	if terms.Empty() {
		return
	}
	q, err := elector.Open(s.URLs...)
	if err != nil {
		return // unexpected: mandate could open the same URLs
	}
	defer func() { _ = q.Close() }()
	// These signals were ignored until mandate was dead, because a service manager or a terminal
	// sends them to all processes. They may also arrive after mandate was killed: the release then
	// makes one attempt and no more.
	ctx, end := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer end()
	_, _ = terms.Release(ctx, q, "mandate was killed")
}

package main

import (
	"bytes"
	"errors"
	"os"
	"sync"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
	"github.com/mandate-dev/mandate/elector/supervisor"
)

// ownTerms are what the electors of this process report about their terms, on a pipe that the process
// itself reads. It passes them on to the helpers of its commands, which release the terms when this
// process was killed.
type ownTerms struct {
	r, w *os.File

	mu    sync.Mutex
	terms supervisor.Terms
}

// openTerms makes the pipe, before the elector is made. Without the pipe, a crash costs the rest of
// the lease. If this process is supervised itself, its supervisor knows when all of its processes are
// gone, and no pipe is made. The caller calls forget once the elector has taken the pipe out of the
// environment, or was not made: programs started later must not take the pipe for their own.
func (a *app) openTerms() (forget func()) {
	if _, supervised := os.LookupEnv(supervisor.Variable); supervised {
		return func() {}
	}
	r, w, name, err := supervise.ReportPipe(0)
	if err == nil {
		err = os.Setenv(supervisor.Variable, name)
	}
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			a.log.Warn("no reports of terms; after a crash the lease lapses", "error", err)
		}
		return func() {}
	}
	a.terms = &ownTerms{r: r, w: w}
	return func() { _ = os.Unsetenv(supervisor.Variable) }
}

// of returns what the helper of a term is to release if this process is killed: that term, the
// assigner election of a group, whose work ends with this process, and the member of the group. An
// elector reports a term before its work starts.
func (o *ownTerms) of(election string, token uint64, assigner string) []byte {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.terms.Follow(bytes.NewReader(supervise.ReadNow(o.r))) // it fails only if it can't read
	return o.terms.Lines(func(e string, t uint64) bool {
		return e == election && t == token || assigner != "" && e == assigner
	})
}

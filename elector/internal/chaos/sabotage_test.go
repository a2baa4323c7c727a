//go:build linux

package chaos

import (
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// sabotageEnv makes a worker do what many do: it keeps "I lead" in a variable
// instead of asking, and writes without showing its token.
const sabotageEnv = "MANDATE_CHAOS_SABOTAGE"

// The whole of this tier can fail: a leader is stopped beyond its lease, and what
// a sabotaged worker then does is seen.
func TestChaosSeesSabotage(t *testing.T) {
	s := newStage(t, 2, 0)
	s.env = []string{sabotageEnv + "=1"}
	for _, c := range s.cands {
		c.start()
	}
	ctx, stop := context.WithCancel(context.Background())
	var reader sync.WaitGroup
	reader.Go(func() { s.readRegister(ctx) })
	old := s.nextLeader(nil)
	old.signal(syscall.SIGSTOP)
	s.nextLeader(old)
	time.Sleep(lease / 2) // it writes
	old.signal(syscall.SIGCONT)
	time.Sleep(2 * lease)
	stop()
	reader.Wait()
	r := s.check()
	t.Log(r)
	said := strings.Join(r.Violations, "\n")
	for _, want := range []string{"were both valid", "refuses old tokens"} {
		if !strings.Contains(said, want) {
			t.Errorf("not seen: %q; seen: %q", want, r.Violations)
		}
	}
}

// nextLeader waits for a leader other than the given one that works: the nodes may
// name a candidate for a moment before it knows that it has won, and one that is
// stopped then has nothing to write in an ended term.
func (s *stage) nextLeader(old *candidate) *candidate {
	s.t.Helper()
	for limit := time.Now().Add(lease + 10*time.Second); ; time.Sleep(lease / 50) {
		if c := s.leader(); c != nil && c != old && s.works(c) {
			return c
		}
		if time.Now().After(limit) {
			s.t.Fatal("nobody else leads")
		}
	}
}

// works reports whether a candidate has written in a term.
func (s *stage) works(c *candidate) bool {
	return slices.ContainsFunc(s.readJournal(), func(r Record) bool {
		return r.Kind == Reply && r.Who == c.id && r.Result == Applied
	})
}

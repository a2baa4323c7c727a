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
	wants := []string{"were both valid", "refuses old tokens"}
	var r Report
	for limit := time.Now().Add(maxWait); ; {
		time.Sleep(2 * lease) // it writes, and is read
		r = s.check()
		missing := slices.DeleteFunc(slices.Clone(wants), func(want string) bool {
			return strings.Contains(strings.Join(r.Violations, "\n"), want)
		})
		if len(missing) == 0 {
			break
		}
		if time.Now().After(limit) {
			t.Errorf("not seen: %q; seen: %q", missing, r.Violations)
			break
		}
	}
	stop()
	reader.Wait()
	t.Log(r)
}

// nextLeader waits for a leader other than the given one that works: the nodes may
// name a candidate for a moment before it knows that it has won, and one that is
// stopped then has nothing to write in an ended term.
func (s *stage) nextLeader(old *candidate) *candidate {
	s.t.Helper()
	for limit := time.Now().Add(maxWait); ; time.Sleep(lease / 50) {
		if c := s.leader(maxWait); c != nil && c != old && s.works(c) {
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

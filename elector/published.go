package elector

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// state is what other goroutines than the state machine's may know of a candidate.
type state struct {
	role       string
	trouble    error     // why it cannot campaign or renew right now
	lastUnable time.Time // when something other than the candidate's probe was last wrong; zero: never
	pause      string    // the note of the pause that it knows of; "": not paused
	leader     *Leader   // who held the lock when the nodes last answered; nil: no candidate did
	restUntil  time.Time
	restWhy    string // how its last term ended
}

// published is the state of a candidate behind its mutex. Safe for concurrent use.
type published struct {
	mu sync.Mutex
	state
}

func (p *published) read() state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// update changes the state, and returns the one before.
func (p *published) update(change func(*state)) (before state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before = p.state
	change(&p.state)
	return before
}

// validTerm returns the term that this candidate serves, nil when it does not lead, or there is no candidate.
func (c *candidate) validTerm() *Term {
	if c == nil {
		return nil
	}
	if t := c.term.Load(); t.Valid() {
		return t
	}
	return nil
}

// is reports whether incarnation is that of this candidate; false where there is none.
func (c *candidate) is(incarnation string) bool { return c != nil && c.incarnation == incarnation }

// check returns nil when nothing is wrong with this candidate: its probes pass, and Redis grants what it
// requests; otherwise what is wrong.
func (c *candidate) check() error {
	now := c.published.read()
	if now.role == roleIdle {
		return errors.New("not campaigning: Run is not running")
	}
	if now.trouble != nil {
		return now.trouble
	}
	if err := c.probes.failing(); err != nil {
		return fmt.Errorf("unhealthy: %w", err)
	}
	if err := c.overload(); err != nil {
		return err
	}
	// Resign returns a moment before the role changes: a term that is over must not
	// be reported as one whose work is still running.
	if t := c.term.Load(); now.role == roleStopping && t != nil && !t.grant.Valid() && !t.isOver() {
		return errors.New("the work of an ended term has not returned")
	}
	return nil
}

// overload returns an error while renewals wait in this process for so long that terms may end. It logs that once for all
// elections of the Quorum.
func (c *candidate) overload() (err error) {
	what, n := "", c.nodes.Overload()
	if n > 0 {
		what = "overload" // the error differs by lease
		err = fmt.Errorf("this process is too busy for %d elections with a lease of %v: a longer lease, fewer elections, or more CPU", n, c.cfg.Lease)
	}
	c.election.hooks.overload.note(c.log, overloaded, what, time.Now(), "reason", err)
	return err
}

// setTrouble publishes why this candidate cannot do something; nil: nothing is wrong. It logs that in
// the words for what it cannot do.
func (m *machine) setTrouble(cannot phrases, err error) {
	before := m.published.update(func(s *state) { s.trouble = err })
	if err == nil && before.trouble == nil { // as at nearly every renewal
		return
	}
	if err == nil {
		m.wasUnable()
	}
	what := ""
	switch {
	case errors.Is(err, ErrUnreachable): // its text changes with what becomes of each node
		what = cannot.begins
	case err != nil:
		what = cannot.begins + ": " + err.Error()
	}
	m.troubled.note(m.log, cannot, what, time.Now(), "error", err)
}

// ableSince returns since when nothing has been wrong with this candidate. It does not check that
// nothing is wrong now: the caller has done so.
func (c *candidate) ableSince() time.Time {
	since := c.published.read().lastUnable
	if p := c.probes.candidate; p != nil {
		if passes := p.Status().Since; passes.After(since) {
			since = passes
		}
	}
	return since
}

// wasUnable notes that something was wrong with this candidate until now.
func (m *machine) wasUnable() { m.published.update(func(s *state) { s.lastUnable = time.Now() }) }

// isPaused reports whether the election is paused, as far as this candidate knows. During a
// pause a leader hands over only on request.
func (c *candidate) isPaused() bool { return c.published.read().pause != "" }

// notePause records what a claim or a renewal has shown of a pause. A node whose lock is held reports
// the holder of a claim instead.
func (m *machine) notePause(t quorum.Tally) {
	paused, running, note := 0, 0, ""
	for _, a := range t.Answers {
		switch {
		case a.Status == protocol.Paused, a.Status == protocol.Renewed && a.Note != "":
			paused, note = paused+1, a.Note
		case a.Status != protocol.Held && a.Status != protocol.Unknown:
			running++
		}
	}
	switch {
	case paused >= m.nodes.Majority():
		m.setPaused(note)
	case running >= m.nodes.Majority():
		m.setPaused("")
	}
}

// setPaused publishes a pause, and logs it. note is the value of its key; empty: not paused.
func (c *candidate) setPaused(note string) {
	if before := c.published.update(func(s *state) { s.pause = note }); before.pause == "" && note == "" {
		return // as at nearly every renewal
	}
	c.paused.note(c.log, paused, note, time.Now(), "note", protocol.ParsePauseNote(note).String())
}

// logNotSubscribed logs once that the node refuses to send releases, as for want of a right, or a proxy that can't.
// The other errors of a subscription are temporary, and the requests report them too.
func (c *candidate) logNotSubscribed(err error) {
	refused := rediserr.RefusedSubscribe(err) || rediserr.Answered(err) && rediserr.Advice(err) == ""
	if refused && c.unsubscribed.CompareAndSwap(false, true) {
		c.log.Warn("cannot subscribe to release notifications; falling back to lease expiry", "error", rediserr.CandidateNeeds(err, c.keys.Prefix()))
	}
}

// logOtherVersion logs once that another program takes part in the election with another protocol. Its
// messages are ignored, and this candidate does not lead beside its lock.
func (c *candidate) logOtherVersion(version int) {
	if c.otherVersion.CompareAndSwap(false, true) {
		c.log.Warn("ignoring messages of another protocol", "protocol", version, "own_protocol", protocol.Version)
	}
}

// logUnrecorded logs once that a node does not record events in its history: without it no operator
// can look up later who led and why a term ended.
func (c *candidate) logUnrecorded(err error) {
	if c.unrecorded.CompareAndSwap(false, true) {
		c.log.Warn("cannot record history", "error", err, "key", c.keys.History)
	}
}

// Leader describes the leader of an election.
type Leader struct {
	Candidate   string        `json:"candidate"`                // its id
	Incarnation string        `json:"incarnation,omitempty"`    // random per Elector: distinguishes two processes of one id
	Advertise   string        `json:"advertise,omitempty"`      // where it can be reached, as configured
	Token       uint64        `json:"token"`                    // the fencing token of its term
	LeaseLeft   time.Duration `json:"-" ms:"lease_left_ms"`     // until the lease ends unless it is renewed
	Since       time.Time     `json:"since,omitempty,omitzero"` // when its term began, by the leader's clock
	Protocol    int           `json:"protocol,omitempty"`       // of its version, where that is another one than this program's

	holder protocol.Holder // what the locks show
}

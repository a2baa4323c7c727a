package elector

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
)

// candidate is what the goroutines of one Elector share: those of its callers, the state machine,
// and the goroutines beside it. After New only the atomic fields and those that mu guards change.
type candidate struct {
	cfg         Config
	timing      lease.Timing
	nodes       *quorum.Nodes
	bus         *pubsub.Bus
	claimWanted chan struct{} // signaled by ClaimNow
	keys        *protocol.Keys
	incarnation string
	election    *Election     // as operators see it, with what this candidate adds
	hostClock   *lease.Clock  // of this machine
	voter       *quorum.Voter // claims, renews and releases for the state machine
	log         *slog.Logger
	supervisor  *supervised.Pipe // of this process; nil: none

	probes      probes
	subscribers subscribers
	counters    *counters

	advertise    atomic.Pointer[string] // Config.Advertise, until SetAdvertise
	term         atomic.Pointer[Term]   // the newest term, also an ended one
	leader       atomic.Pointer[Leader] // who held the lock when the nodes last answered; nil: no candidate did
	standsBy     atomic.Bool            // campaigns, and receives a release at once
	unsubscribed atomic.Bool            // logged that releases are not received
	unrecorded   atomic.Bool            // logged that a node does not record events in its history

	mu         sync.Mutex // of all below
	role       string
	condition  condition // why this candidate cannot campaign right now
	reminder   reminder  // of the condition
	lastUnable time.Time // when something other than the candidate's probe was last wrong; zero: never
	paused     string    // the note of the pause that was logged; "": not paused
	// pauseReminder reminds of the pause.
	pauseReminder reminder
	keepReminder  reminder  // of why this leader does not hand over, see handoverBlocked
	restWhy       string    // why it rests: how its last term ended
	rested        time.Time // when the rest after a term ends; past, or zero: it does not rest
}

// condition is why a candidate cannot campaign. Conditions with the same key count as one,
// because the text of the error may change with every attempt.
type condition struct {
	key   string
	err   error
	quiet bool // the candidate must not lead, but this is not certain enough to be reported
}

// refuses reports whether a candidate with this condition must not lead.
func (t condition) refuses() bool { return t.err != nil || t.quiet }

// listening is called when a candidate that campaigns has subscribed to releases.
func (c *candidate) listening() { c.standsBy.Store(true) }

// introduce logs the configuration, which explains much of what is logged later. The names of
// the nodes contain no passwords.
func (c *candidate) introduce() {
	prefix, _, _ := strings.Cut(c.keys.Lock, ":{")
	var probes []string
	if c.probes.candidate != nil {
		probes = append(probes, "candidate")
	}
	if c.probes.work != nil {
		probes = append(probes, "work")
	}
	c.log.Info("starting", "version", c.cfg.Version, "nodes", strings.Join(c.nodes.Names(), " "), "prefix", prefix,
		"lease", unit(c.cfg.Lease), "stop_margin", unit(c.cfg.StopMargin), "probes", strings.Join(probes, " "),
		"succession", string(cmp.Or(c.cfg.Succession, "race")))
}

// validTerm returns the term that this candidate serves, nil when it does not lead.
func (c *candidate) validTerm() *Term {
	if t := c.term.Load(); t != nil && t.Valid() {
		return t
	}
	return nil
}

// address returns where this candidate can be reached, as it advertises now.
func (c *candidate) address() string { return *c.advertise.Load() }

// lastLeader returns who led when the nodes last answered.
func (c *candidate) lastLeader() (Leader, bool) {
	if t := c.validTerm(); t != nil {
		return Leader{
			Candidate: c.cfg.ID, Incarnation: c.incarnation, Advertise: c.address(), Token: t.Token(), LeaseLeft: t.Left(), Since: t.Since(),
		}, true
	}
	l := c.leader.Load()
	if l == nil || l.Incarnation == c.incarnation { // its own term has ended
		return Leader{}, false
	}
	known := *l
	known.attempt = "" // only the log needs it, and callers compare leaders
	return known, true
}

// noteLeader records the leader that these locks show. A majority of the nodes must have answered.
func (c *candidate) noteLeader(locks []string) {
	in, ok := protocol.HolderOf(locks, c.nodes.Majority())
	if !ok || in.Incarnation == "" { // a lock of another program names no candidate
		c.leader.Store(nil)
		return
	}
	before := c.leader.Swap(&Leader{Candidate: in.Candidate, Incarnation: in.Incarnation, Advertise: in.Advertise, Token: in.Token, attempt: in.Attempt})
	if in.Incarnation != c.incarnation && (before == nil || before.attempt != in.Attempt) {
		c.log.Info("new leader", "leader", in.Candidate, "leader_token", in.Token)
	}
}

func (c *candidate) currentRole() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.role
}

// check returns nil when this candidate can campaign, and renews if it leads; otherwise what is wrong.
func (c *candidate) check() error {
	c.mu.Lock()
	now, condition := c.role, c.condition
	c.mu.Unlock()
	if now == roleIdle {
		return errors.New("not campaigning: Run is not running")
	}
	if condition.err != nil {
		return condition.err
	}
	if err := c.probes.failing(); err != nil {
		return fmt.Errorf("unhealthy: %w", err)
	}
	// Resign returns a moment before the role changes: a term that is over must not
	// be reported as one whose work is still running.
	if t := c.term.Load(); now == roleStopping && t != nil && !t.grant.Valid() && !t.isOver() {
		return errors.New("the work of an ended term has not returned")
	}
	return nil
}

// setCondition records a condition, and logs it when it begins, while it lasts, and when it has
// ended. The zero condition: nothing is wrong.
func (c *candidate) setCondition(now condition) {
	c.mu.Lock()
	old := c.condition
	c.condition = now
	if now.err == nil && old.err == nil { // as at nearly every renewal
		c.mu.Unlock()
		return
	}
	at := time.Now()
	if now.err != nil && now.key != old.key {
		c.reminder.begin(at)
	}
	if now.err == nil {
		c.lastUnable = at
	}
	again := now.err != nil && c.reminder.due(at)
	lasted := c.reminder.lasted(at)
	c.mu.Unlock()
	switch {
	case c.cfg.Observer && now.err != nil && now.key != old.key:
		c.log.Warn("cannot observe the election", "error", now.err)
	case c.cfg.Observer && again:
		c.log.Warn("still unable to observe the election", "for", lasted, "error", now.err)
	case c.cfg.Observer && now.err == nil && old.err != nil:
		c.log.Info("can observe the election again", "for", lasted)
	case c.cfg.Observer:
	case now.err != nil && now.key != old.key:
		c.log.Warn("cannot campaign", "error", now.err)
	case again:
		c.log.Warn("still unable to campaign", "for", lasted, "error", now.err)
	case now.err == nil && old.err != nil:
		c.log.Info("can campaign again", "for", lasted)
	}
}

// ableSince returns since when nothing has been wrong with this candidate. It does not check that
// nothing is wrong now: the caller has done so.
func (c *candidate) ableSince() time.Time {
	c.mu.Lock()
	since := c.lastUnable
	c.mu.Unlock()
	if p := c.probes.candidate; p != nil {
		if passes := p.Status().Since; passes.After(since) {
			since = passes
		}
	}
	return since
}

// wasUnable notes that something was wrong with this candidate until now.
func (c *candidate) wasUnable() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastUnable = time.Now()
}

// restsFor returns how much longer this candidate rests, and why; zero when it does not.
func (c *candidate) restsFor() (left time.Duration, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.role != roleResting {
		return 0, ""
	}
	return max(0, time.Until(c.rested)), c.restWhy
}

// isPaused reports whether the election is paused, as far as this candidate knows. During a
// pause a leader hands over only on request.
func (c *candidate) isPaused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paused != ""
}

// setPaused records a pause, and logs it when it begins, while it lasts, and when it has ended.
// note is the value of its key; empty: not paused.
func (c *candidate) setPaused(note string) {
	c.mu.Lock()
	old := c.paused
	c.paused = note
	if note == "" && old == "" { // as at nearly every renewal
		c.mu.Unlock()
		return
	}
	at := time.Now()
	if old == "" {
		c.pauseReminder.begin(at)
	}
	again := note == old && c.pauseReminder.due(at)
	lasted := c.pauseReminder.lasted(at)
	c.mu.Unlock()
	switch {
	case note == "":
		c.log.Info("election resumed", "for", lasted)
	case old != note:
		c.log.Info("election paused, no new leader will be elected", "note", protocol.ParsePauseNote(note).String())
	case again:
		c.log.Info("election still paused, no new leader will be elected", "for", lasted, "note", protocol.ParsePauseNote(note).String())
	}
}

// logNotSubscribed logs once that the Redis user lacks a right to receive releases. Other errors
// of a subscription are temporary, and the requests report them too.
func (c *candidate) logNotSubscribed(err error) {
	if rediserr.RefusedSubscribe(err) && c.unsubscribed.CompareAndSwap(false, true) {
		c.log.Warn("cannot subscribe to release notifications; falling back to lease expiry", "error", err)
	}
}

// logUnrecorded logs once that a node does not record events in its history: without it no operator
// can look up later who led and why a term ended.
func (c *candidate) logUnrecorded(err error) {
	if c.unrecorded.CompareAndSwap(false, true) {
		c.log.Warn("cannot record history", "error", err, "key", c.keys.History)
	}
}

// event returns an event of this candidate.
func (c *candidate) event(k string, detail string) Event {
	return Event{
		Version: eventVersion, Kind: k, Election: c.cfg.Election, Candidate: c.cfg.ID, Incarnation: c.incarnation,
		Advertise: c.address(), Detail: detail, Time: time.Now().Round(0),
	}
}

// reservedFor returns how long the other candidates wait for the heir.
func (c *candidate) reservedFor() time.Duration { return c.cfg.Lease / 4 }

package elector

import (
	"cmp"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/cordon"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/pubsub"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
)

// candidate is what the goroutines of one Elector share: its callers, the state machine,
// and what accompanies that. Nothing here changes after New, but for what is atomic and
// what mu guards.
type candidate struct {
	cfg         Config
	timing      lease.Timing
	nodes       *quorum.Nodes
	bus         *pubsub.Bus
	cordons     *cordon.Watcher
	recordoned  chan struct{} // signaled when a cordon of this candidate begins or ends, or the shard that it campaigns for has no owner
	guards      *guards       // of terms
	renewals    *schedule     // of leaders
	claims      *schedule     // of followers
	received    *lastEvent    // in this process
	keys        *protocol.Keys
	incarnation string
	election    *Election     // the same as operators see it, with what this candidate adds
	hostClock   *lease.Clock  // of this machine
	since       lease.Stamp   // when the member began whose shard it is about; zero: it is an election of its own
	assigns     bool          // it is the election of the assigner of a group
	above       uint64        // its tokens are greater than this one of another election
	listening   func()        // called when a release would be received at once; nil: it is not wanted
	voter       *quorum.Voter // claims, renews and releases for the state machine alone
	log         *slog.Logger
	supervisor  *supervised.Pipe // of this process; nil: none

	warming     warming
	probes      probes
	subscribers subscribers
	counters    *counters

	advertise    atomic.Pointer[string]           // Config.Advertise, until SetAdvertise
	standing     atomic.Pointer[cordon.Subject]   // whether this candidate is cordoned; nil before the first machine
	term         atomic.Pointer[Term]             // the newest term, also an ended one
	leader       atomic.Pointer[Leader]           // who held the lock when the nodes answered last; nil: no candidate did
	outdated     atomic.Pointer[protocol.Highest] // a newer version has led: this candidate refuses to; nil: none has
	unsubscribed atomic.Bool                      // logged that releases are not received
	unrecorded   atomic.Bool                      // logged that the history takes no events

	mu        sync.Mutex // of all below
	role      Role
	condition condition // why this candidate cannot campaign right now
	reminder  reminder  // of the condition
	unable    time.Time // until when something was wrong last, the candidate's probe apart; zero: nothing was
	paused    string    // what the key of the pause holds that was logged; "": not paused
	// pauseReminder is of the pause.
	pauseReminder reminder
	keepReminder  reminder  // since when it makes room for no one, see yieldable
	restWhy       string    // how the term before the rest ended
	rested        time.Time // when it campaigns again after a term; past, or zero: it does not rest
}

// condition is an error and the key under which it is the same one as before: its
// text may change with every attempt.
type condition struct {
	key   string
	err   error
	quiet bool // not to be led with, and not sure enough to be reported
}

// refuses reports whether a candidate with this condition must not lead.
func (t condition) refuses() bool { return t.err != nil || t.quiet }

// introduce logs the configuration, which explains much of what is logged later. The names of
// the nodes hold no passwords.
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

// validTerm is the term that this candidate serves, nil when it does not lead.
func (c *candidate) validTerm() *Term {
	if t := c.term.Load(); t != nil && t.Valid() {
		return t
	}
	return nil
}

// address is where this candidate can be reached, as it advertises now.
func (c *candidate) address() string { return *c.advertise.Load() }

// lastLeader is who led when the nodes answered last.
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
	known.attempt = "" // it is for the log alone: what callers compare is the leader
	return known, true
}

// noteLeader takes the locks of nodes that have answered, a majority of all.
func (c *candidate) noteLeader(locks []string) {
	in, ok := protocol.HolderOf(locks, c.nodes.Majority())
	if !ok || in.Incarnation == "" { // a lock of another origin names no candidate
		c.leader.Store(nil)
		return
	}
	before := c.leader.Swap(&Leader{Candidate: in.Candidate, Incarnation: in.Incarnation, Advertise: in.Advertise, Token: in.Token, attempt: in.Attempt})
	if in.Incarnation != c.incarnation && (before == nil || before.attempt != in.Attempt) {
		c.log.Info("new leader", "leader", in.Candidate, "leader_token", in.Token)
	}
}

func (c *candidate) currentRole() Role {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.role
}

// check is nil when this candidate can campaign, and renews if it leads.
func (c *candidate) check() error {
	c.mu.Lock()
	now, condition := c.role, c.condition
	c.mu.Unlock()
	if now == RoleIdle {
		return failed(nil, "not campaigning: Run is not running")
	}
	if condition.err != nil {
		return condition.err
	}
	if err := c.probes.failing(); err != nil {
		return failed(nil, "unhealthy: %w", err)
	}
	// A term ends a moment before the role changes: an elector that rests after its
	// Resign has returned is not one whose work still runs.
	if t := c.term.Load(); now == RoleStopping && t != nil && !t.grant.Valid() && !t.isOver() {
		return failed(nil, "the work of an ended term has not returned")
	}
	return nil
}

// setCondition logs a condition when it begins, while it lasts, and when it has ended.
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
		c.unable = at
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

// calm reports whether nothing is wrong and the election is not paused, as far as is known.
func (c *candidate) calm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.condition.err == nil && c.paused == ""
}

// ableSince is since when nothing is wrong with a candidate with which nothing is.
func (c *candidate) ableSince() time.Time {
	c.mu.Lock()
	since := c.unable
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
	c.unable = time.Now()
}

// restsFor is how long it does not campaign yet, and why.
func (c *candidate) restsFor() (left time.Duration, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.role != RoleResting {
		return 0, ""
	}
	return max(0, time.Until(c.rested)), c.restWhy
}

// isPaused reports whether no new leader is elected, as far as is known: then a leader
// makes room for no other on its own account.
func (c *candidate) isPaused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paused != ""
}

// setPaused logs a pause when it begins, while it lasts, and when it has ended. note is
// what its key holds; empty: not paused.
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

// logNotSubscribed logs once that a right is missing to receive releases. Other errors
// of a subscription pass, and show in the requests too.
func (c *candidate) logNotSubscribed(err error) {
	if rediserr.RefusedSubscribe(err) && c.unsubscribed.CompareAndSwap(false, true) {
		c.log.Warn("cannot subscribe to release notifications; falling back to lease expiry", "error", err)
	}
}

// logUnrecorded logs once that a node's history takes no events: without it no operator can
// look up later who led and why a term ended.
func (c *candidate) logUnrecorded(err error) {
	if c.unrecorded.CompareAndSwap(false, true) {
		c.log.Warn("cannot record history", "error", err, "key", c.keys.History)
	}
}

// event describes a change of this candidate.
func (c *candidate) event(k EventKind, detail string) Event {
	return Event{
		Version: eventVersion, Kind: k, Election: c.cfg.Election, Candidate: c.cfg.ID, Incarnation: c.incarnation,
		Advertise: c.address(), Detail: detail, Time: time.Now().Round(0),
	}
}

// reservedFor is how long the others wait for the heir.
func (c *candidate) reservedFor() time.Duration { return c.cfg.Lease / 4 }

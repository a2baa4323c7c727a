// Package doctor checks whether a Redis is fit for elections, and what is wrong with an election. It
// returns typed findings with advice, the most serious first. mandate doctor and mandate status print
// them; a service may run it once before it starts, or behind a page for operators.
//
// It looks from outside, needs no candidacy, and changes nothing that an election uses.
// Texts are for people and may change; programs should rely on a Finding's Check and Level
// only. Advice names commands of mandate and redis-cli.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Level is how bad a Finding is.
type Level string

// The levels, from good to bad.
const (
	LevelOK      Level = "ok"
	LevelUnknown Level = "unknown" // it could not be checked, often because a right is missing
	LevelNote    Level = "note"    // it was so lately, and is no more
	LevelWarn    Level = "warn"    // the election works, but not as well as it could
	LevelFail    Level = "fail"    // the election does not work, or is not safe
)

var levels = []Level{LevelOK, LevelUnknown, LevelNote, LevelWarn, LevelFail}

// Worse reports whether l is worse than another level.
func (l Level) Worse(than Level) bool { return slices.Index(levels, l) > slices.Index(levels, than) }

// Finding is the outcome of one check.
type Finding struct {
	Node   string    `json:"node,omitempty"`   // empty: the finding is about all nodes
	Check  string    `json:"check"`            // what was checked, one word
	Level  Level     `json:"level"`            // ok, unknown, note, warn or fail
	Found  string    `json:"found"`            // in words
	Since  time.Time `json:"since,omitzero"`   // since when it has been so; zero: not known, or Found says it
	Advice string    `json:"advice,omitempty"` // what to do

	denied bool // it is unknown for want of a right
	late   bool // it is unknown for want of an answer
}

// others stands in the ranking for the checks that it does not name.
const others = ""

// ranking orders findings of one level: first what explains an incident that lasts; then what has
// happened before; last the configuration, about which there is seldom news.
var ranking = []string{
	"servers", "leaders", "locks", "nodes", "lock", "majority", "candidates", "rights", "refuses", "same-server", "copies", "reach", "unreached", "trace", "vote", "pause", "ids", "lease", "protocol", "able", "gone", "leader", "ticks",
	others, "skipped", "flapping", "data", "persistence", "eviction", "failover", "version",
}

func rank(check string) int {
	if i := slices.Index(ranking, check); i >= 0 {
		return i
	}
	return slices.Index(ranking, others)
}

// sortFindings puts the most serious findings first.
func sortFindings(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(slices.Index(levels, b.Level)-slices.Index(levels, a.Level), rank(a.Check)-rank(b.Check))
	})
	return all
}

// Merge returns the findings with those that are the same on several nodes as one, whose Node lists
// these nodes.
func Merge(findings []Finding) (merged []Finding) {
	for _, f := range findings {
		i := slices.IndexFunc(merged, func(m Finding) bool {
			return f.Node != "" && m.Node != "" && m.Check == f.Check && m.Level == f.Level && m.Found == f.Found
		})
		if i < 0 {
			merged = append(merged, f)
			continue
		}
		m := &merged[i]
		m.Advice = strings.ReplaceAll(m.Advice, m.Node, m.Node+", "+f.Node)
		m.Node += ", " + f.Node
	}
	return merged
}

// Problems returns the warnings and failures among the findings of Examine or of a Report: the first
// one is that to act on first. What is the same on several nodes is one problem, and its Found names
// the nodes.
func Problems(findings []Finding) (all []Finding) {
	for _, f := range Merge(findings) {
		if !f.Level.Worse(LevelNote) {
			continue
		}
		if !strings.Contains(f.Found, f.Node) {
			f.Found = f.Node + ": " + f.Found
		}
		all = append(all, f)
	}
	return all
}

// Config is what Examine looks at. The zero value examines the nodes alone.
type Config struct {
	// Election is also examined: who leads, which nodes its candidates vote with, what its
	// history holds. Default: none.
	Election string
	// Lease is the lease against which round trips are judged. Default: the one that the leader
	// uses, or else 10 s.
	Lease time.Duration
	// Command formats a command of mandate, named in advice, from its verb and arguments. The
	// mandate program uses it to add the flags that select this Redis. Default: "mandate", the
	// verb and the arguments.
	Command func(verb string, args ...string) string
}

// timeout bounds each of the two rounds of requests to a node.
const timeout = 3 * time.Second

// Examine checks what an election needs of its Redis: whether each node answers, how
// fast, which rights it grants, what it keeps over a restart, whether it evicts keys,
// replicas, clocks, and whether messages arrive. To examine elections with another prefix, use q.Namespace.
// The most serious findings come first.
//
// Examine blocks for two rounds of requests to the nodes, of at most 3 s each, or until ctx
// ends. It writes two keys beside those of the election (prefix:{election}:check) and
// removes them. If Redis refuses to report something, the finding is LevelUnknown and no
// failure. A Redis that is down is a finding, too. Examine returns an error only for a Config
// that can't be used, or a Quorum that neither Open nor NewQuorum made. If an election is
// named, Examine also queries its candidates for the nodes that they vote with, and for the
// leader.
func Examine(ctx context.Context, q *elector.Quorum, cfg Config) ([]Finding, error) {
	nodes, el, err := open(q, cmp.Or(cfg.Election, "doctor"))
	if err != nil {
		return nil, err
	}
	if cfg.Lease != 0 {
		if err := (lease.Timing{Lease: cfg.Lease}).WithDefaults().Validate(); err != nil {
			return nil, fmt.Errorf("doctor: %w", err)
		}
	}
	var seen Report
	var writes []Finding
	var reading sync.WaitGroup
	if cfg.Election != "" {
		reading.Go(func() { seen = Read(ctx, el, RecentTerms) })
		reading.Go(func() { writes, _ = Writable(ctx, q, cfg.Election) }) // the name is right
	}
	e := newExamination(protocol.KeysOf(q.Prefix(), el.Name()).In(nodes.Database()), nodes.Majority(), cfg.Command)
	e.user = userOf(nodes)
	e.facts = inspect(ctx, nodes, e.keys, timeout)
	reading.Wait()
	e.timing = lease.Timing{Lease: cmp.Or(cfg.Lease, leaseOf(seen.Nodes))}.WithDefaults()
	e.nodes()
	if cfg.Election != "" {
		seen.Writes = writes
		e.held(&seen)
		e.election(&seen)
		e.reachable(&seen)
	}
	return e.finish(), nil
}

// finish returns all findings in their order, with one more if rights were missing to see what is wrong. Of several about
// the majority it keeps the worst: nodes may answer PING, and not what they hold.
func (e *examination) finish() (all []Finding) {
	var unseen []string
	majority := false
	for _, f := range sortFindings(e.findings) {
		if f.Check == "majority" && majority {
			continue
		}
		majority = majority || f.Check == "majority"
		if f.denied && !slices.Contains(unseen, f.Check) {
			unseen = append(unseen, f.Check)
		}
		all = append(all, f)
	}
	if len(unseen) == 0 {
		return all
	}
	return append(all, Finding{Check: CheckUnseen, Level: LevelUnknown, Found: fmt.Sprintf("%d checks need more rights than %s has: %s", len(unseen), e.user, strings.Join(unseen, ", "))})
}

// CheckUnseen is the check of the Finding that counts what could not be checked for want of rights. Without it all was seen.
const CheckUnseen = "unseen"

var errNoQuorum = errors.New("doctor: no Quorum: make one with elector.Open or elector.NewQuorum")

// open returns the nodes of a quorum, and an election on them.
func open(q *elector.Quorum, election string) (*nodes.Nodes, *elector.Election, error) {
	nodes, _ := q.Parts(module.Only{})
	if nodes == nil {
		return nil, nil, errNoQuorum
	}
	el, err := q.Election(election)
	if err != nil {
		return nil, nil, fmt.Errorf("doctor: %w", err)
	}
	return nodes, el, nil
}

// userOf names the Redis user who looks at the nodes.
func userOf(ns *nodes.Nodes) string {
	if ns != nil && ns.Len() > 0 {
		if name := rediserr.UserOf(ns.All()[0].Client()); name != "" {
			return "user " + name
		}
	}
	return "this Redis user"
}

// leaseOf returns the lease that the holder of the lock uses; 0 when the lock is free.
func leaseOf(nodes []elector.NodeStatus) time.Duration {
	for _, n := range nodes {
		if b, err := protocol.ParseLockValue(n.Lock); err == nil {
			return b.Lease
		}
	}
	return 0
}

// examination judges the facts that were read before. It does no I/O.
type examination struct {
	keys     protocol.Keys
	facts    []facts
	majority int
	timing   lease.Timing
	command  func(verb string, args ...string) string // see Config.Command
	user     string                                   // the Redis user who looks
	findings []Finding
}

func newExamination(keys protocol.Keys, majority int, command func(string, ...string) string) *examination {
	if command == nil {
		command = func(verb string, args ...string) string {
			return strings.Join(append([]string{"mandate", verb}, args...), " ")
		}
	}
	return &examination{keys: keys, majority: majority, command: command, user: userOf(nil)}
}

func (e *examination) add(node, check string, level Level, advice, found string, args ...any) {
	e.findings = append(e.findings, Finding{Node: node, Check: check, Level: level, Found: fmt.Sprintf(found, args...), Advice: advice})
}

// unseen adds that something could not be checked. err: why.
func (e *examination) unseen(node, check, advice string, err error, found string, args ...any) {
	e.add(node, check, LevelUnknown, advice, found, args...)
	e.findings[len(e.findings)-1].denied = rediserr.Denied(err)
}

// since notes since when what was added last has been so.
func (e *examination) since(at time.Time) { e.findings[len(e.findings)-1].Since = at }

// nodeTimeout bounds Writable and Ticks when the caller's context does not, as Election.Status is bounded.
const nodeTimeout = 1500 * time.Millisecond

// Writable checks whether each node accepts writes. Reading does not reveal that: a node that is out
// of memory or disk answers every query, but no leader can be elected on it. Writable sets one more
// key (prefix:{election}:check), which expires after 100 ms, and waits at most 1.5 s, or until ctx
// ends. It returns one Finding of the check "write" for each node, in their order: LevelOK;
// LevelFail, with the node's error; LevelUnknown if this Redis user may not write, or the node did
// not answer. It returns an error in the same cases as Examine.
func Writable(ctx context.Context, q *elector.Quorum, election string) ([]Finding, error) {
	nodes, _, err := open(q, election)
	if err != nil {
		return nil, err
	}
	keys := protocol.KeysOf(q.Prefix(), election)
	var findings []Finding
	for i, err := range nodes.TryWrite(ctx, &keys, nodeTimeout) {
		f := Finding{Node: nodes.Names()[i], Check: "write", Level: LevelOK, Found: "it accepts writes"}
		switch {
		case rediserr.Denied(err):
			f.Level, f.Found, f.denied = LevelUnknown, "this Redis user may not write", true
		case err != nil && !rediserr.Answered(err):
			f.Level, f.Found, f.late = LevelUnknown, problemOf(err), rediserr.TimedOut(err)
		case err != nil:
			f.Level, f.Found, f.Advice = LevelFail, problemOf(err), remedy(f.Node, problemOf(err))
		}
		findings = append(findings, f)
	}
	return findings, nil
}

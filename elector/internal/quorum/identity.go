package quorum

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Identities are the nodes that a holder votes with, as its lock value names them:
// in the order of its list, "-" for one that it does not know (any more). Two
// candidates whose lists differ can each win a majority; that is how they notice.
//
// A node's identity is a random word in a key of its own. It changes when the node
// loses its data: a machine that was replaced by an empty one, and still runs
// somewhere, must not be taken for its successor.
type Identities string

const (
	notKnown       = "-"
	identityLength = 6 // of 32 letters each: two of ten nodes share one in 10^8 elections
	longIdentity   = 16
	mostIdentities = 64
)

func newIdentity() string { return rand.Text()[:identityLength] }

func parseIdentity(v any) string {
	if s, _ := v.(string); len(s) <= longIdentity && isAlnum(s) {
		return s
	}
	return ""
}

// parseIdentities reads the field of a lock value. What is none of ours says nothing.
func parseIdentities(s string) Identities {
	all := strings.Split(s, ",")
	if len(all) > mostIdentities {
		return ""
	}
	for _, id := range all {
		if id != notKnown && parseIdentity(id) == "" {
			return ""
		}
	}
	return Identities(s)
}

// IdentitiesOf puts the identities of a list together; one that can't be any is not
// known.
func IdentitiesOf(all []string) Identities {
	words, some := make([]string, len(all)), false
	for i, id := range all {
		words[i] = notKnown
		if parseIdentity(id) != "" {
			words[i], some = id, true
		}
	}
	if !some {
		return ""
	}
	return Identities(strings.Join(words, ","))
}

// ByNode are the identities of n nodes in their order, empty where not known.
func (ids Identities) ByNode(n int) []string {
	all := make([]string, n)
	for i, id := range strings.Split(string(ids), ",") {
		if i < n && id != notKnown {
			all[i] = id
		}
	}
	return all
}

// Known are the identities that are known.
func (ids Identities) Known() []string {
	if ids == "" {
		return nil
	}
	return slices.DeleteFunc(strings.Split(string(ids), ","), func(id string) bool { return id == notKnown })
}

// Differ tells whether these nodes and others can't all be in one list of n: together
// they are more. Neither the order of a list matters, nor a node that is not known.
func (ids Identities) Differ(others []string, n int) bool {
	all := map[string]bool{}
	for _, id := range append(ids.Known(), others...) {
		all[id] = true
	}
	return len(all) > n
}

// How long an identity is good for. A lock value that somebody reads was written at
// most a lease ago, and what it names had been confirmed at most told before that. So
// who has known a node under one identity for settled can't be misled by a value from
// before the node got it.
func told(lease time.Duration) time.Duration    { return lease * 3 / 2 } // a follower claims once a lease
func settled(lease time.Duration) time.Duration { return lease + told(lease) }

// identity is what an elector knows of a node.
type identity struct {
	id    string
	since time.Time // when the node first answered with it
	asked time.Time // when the request was sent that it answered last
}

// meet notes a node's answer to a request of that time. It tells whether the identity
// has been known for long.
func (l *lane) meet(id string, sent time.Time, lease time.Duration) bool {
	if id == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.identity.id != id {
		l.identity = identity{id: id, since: time.Now()}
	}
	l.identity.asked = sent
	since := l.identity.since
	// Also by the wall clock, which goes on while the machine sleeps; and never by a
	// step of it alone.
	return min(time.Since(since), time.Since(since.Round(0))) >= settled(lease)
}

// known is the node's identity, empty when it has not been confirmed lately: a node
// that was taken out of service must not count for ever.
func (l *lane) known(lease time.Duration) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.identity.asked
	if l.identity.id == "" || max(time.Since(at), time.Since(at.Round(0))) > told(lease) {
		return ""
	}
	return l.identity.id
}

// identities are what this voter's lock names.
func (v *Voter) identities() Identities {
	all := make([]string, len(v.lanes))
	for i, l := range v.lanes {
		all[i] = l.known(v.seat.Lease)
	}
	return IdentitiesOf(all)
}

// Identities are those of the nodes, as far as they answered lately. Safe beside the
// other methods.
func (v *Voter) Identities() Identities { return v.identities() }

// Meet asks the nodes for their identities where too few are known for the next claim
// to name a majority of them: at the start of a process, and after a long rest. Who
// comes without them could win beside another that names none either. It blocks for a
// round trip to a majority, at most for the call time-out.
func (v *Voter) Meet(ctx context.Context) {
	known := len(v.identities().Known())
	if known >= v.nodes.Majority() || !v.met.IsZero() && time.Since(v.met) < told(v.seat.Lease) {
		return
	}
	v.met = time.Now()
	v.all(newRound(v.nodes.Len(), v.nodes.Majority(), func(node int) Answer {
		v.background.begin()
		defer v.background.end()
		a := Answer{Status: Unknown, Err: context.DeadlineExceeded}
		l := v.lanes[node]
		l.run(ctx, v.seat.CallTimeout, nil, func(ctx context.Context) {
			sent := time.Now()
			id, err := v.nodes.list[node].rdb.Get(ctx, v.seat.Keys.ID).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				a.Err = err
				return
			}
			a = Answer{Status: Met, ID: parseIdentity(id)}
			l.meet(a.ID, sent, v.seat.Lease)
		})
		return a
	}))
}

// Rival is an attempt of somebody else that holds the lock of a node while this voter
// serves a term.
type Rival struct {
	Node   string
	Holder string        // the lock value
	For    time.Duration // from the first to the last time that it was met there
}

type rival struct {
	attempt, holder string
	since, last     time.Time
}

// next is what an answer makes of what was known.
func (r rival) next(a Answer) rival {
	if a.Status != Taken || a.Holder == "" {
		return rival{}
	}
	_, attempt := attemptOf(a.Holder)
	if attempt != r.attempt {
		r.since = time.Now()
	}
	r.attempt, r.holder, r.last = attempt, a.Holder, time.Now()
	return r
}

// Rivals are who held nodes against the newest term at the last answers, also those
// that came when their round was over.
func (v *Voter) Rivals() []Rival {
	var all []Rival
	for i, l := range v.lanes {
		l.mu.Lock()
		r := l.rival
		l.mu.Unlock()
		if r.holder != "" {
			all = append(all, Rival{Node: v.nodes.list[i].Name, Holder: r.holder, For: r.last.Sub(r.since)})
		}
	}
	return all
}

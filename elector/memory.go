package elector

import (
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// memory is what a candidate remembers of its election. Each machine leaves it to the
// next one: a candidate that has led before must not take a loss of data for the first
// start.
type memory struct {
	highest          uint64      // the highest counter or token seen on any node
	traced           bool        // a node has shown a trace of an earlier election, or this candidate has won one
	asked            lease.Stamp // when the nodes answered last, to a claim or a look; zero: never
	answered         bool        // a majority has answered before
	twinLogged       bool        // another process with our id was logged
	abstentionLogged bool        // logged that nodes abstain
	foreignVersion   string      // what the version's key holds that was logged
	introduced       bool        // logged the configuration

	differs     string      // the attempt that was last seen to vote with other nodes
	differsFrom lease.Stamp // when it was first seen

	held    lease.Stamp   // when the nodes showed last that another candidate leads; zero: never
	heldAge time.Duration // how long before that it had renewed its lease, at most

	// reported is closed when the end of the last term was announced: the next election is
	// announced after it. Nil: there was no term.
	reported <-chan struct{}
}

// alive takes what a tally shows of tokens. A counter above zero, a holder or a
// pause is a trace of the election; a node that has lost everything has none.
func (k *memory) alive(t quorum.Tally) {
	for _, a := range t.Answers {
		k.highest = max(k.highest, a.Fence)
		k.traced = k.traced || a.Fence > 0 || a.Status == quorum.Held || a.Status == quorum.Paused || a.Status == quorum.Kept
	}
}

// outlives reports whether a lock with another list of nodes was met at each claim for
// longer than late messages of one attempt may keep it up: two and a half leases.
func (k *memory) outlives(clock *lease.Clock, holder string, life time.Duration) bool {
	attempt, _, _ := strings.Cut(holder, " ")
	if k.differs != attempt {
		k.differs, k.differsFrom = attempt, clock.Now()
		return false
	}
	held, ok := clock.Since(k.differsFrom)
	return ok && held > 5*life/2
}

// holds takes that another candidate leads, and for how long its lease lasts still.
func (k *memory) holds(now lease.Stamp, life, left time.Duration) {
	k.held, k.heldAge = now, max(0, life-left)
}

// vacant is for how long at most there has been no leader; zero: not known. A leader that
// disappears reports nothing, but it was there when it renewed its lease.
func (k *memory) vacant(clock *lease.Clock) time.Duration {
	if k.held.IsZero() {
		return 0
	}
	since, ok := clock.Since(k.held)
	if !ok {
		return 0
	}
	return since + k.heldAge
}

package nodes

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// load keeps the claims of a process from delaying its renewals. When thousands of elections come back after an outage,
// each renewal that is late for the sake of claims costs a term, and further claims: a state that does not end when its
// cause has (a metastable failure, Bronson et al., HotOS 2021). So claims are admitted as TCP admits packets: as many at a
// time as are answered well within their time-out, and none while renewals wait in this process. Safe for concurrent use.
type load struct {
	admits *semaphore.Weighted // window claims at a time, the longest waiting first

	mu     sync.Mutex // of all below
	claims int64      // under way
	window int64
	near   time.Duration // the least time that a claim has taken: the way to the nodes
	queued float64       // the time that renewals have waited in this process lately, as a part of their time-out
	at     time.Time     // when that was found
	until  time.Time     // two leases after it was last more than tooLong
}

const (
	manyClaims = 1 << 20 // MaxBatch at first
	fewClaims  = 4       // one that hangs, of an election with a long lease, must not keep the others waiting
	tooLong    = 0.25    // of their time-out, for renewals to wait in this process
)

func newLoad() *load {
	l := &load{admits: semaphore.NewWeighted(manyClaims), window: MaxBatch}
	l.admits.TryAcquire(manyClaims - MaxBatch)
	return l
}

// Admit blocks until this process may claim in one more election, or ctx ends; then it returns nil. over must be called
// with the claim's outcome. limit is the time-out of a request.
func (ns *Nodes) Admit(ctx context.Context, limit time.Duration) (over func(answered bool)) {
	l := ns.load
	if l.admits.Acquire(ctx, 1) != nil {
		return nil
	}
	for ns.Queued(limit) > tooLong {
		if !lease.Sleep(ctx, limit/4) {
			l.admits.Release(1)
			return nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claims++
	began := time.Now()
	return func(answered bool) { l.over(time.Since(began), limit, answered) }
}

// over ends a claim, and learns from it how many there may be: twice as many after each round trip, if so many are under
// way; as many fewer as are late.
func (l *load) over(took, limit time.Duration, answered bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if answered && (l.near == 0 || took < l.near) {
		l.near = took
	}
	inTime, before := answered && took <= max(limit/4, 2*l.near), l.window
	switch {
	case inTime && l.claims > l.window/2:
		l.window = min(l.window+1, manyClaims)
	case !inTime:
		l.window = max(l.window-1, fewClaims)
	}
	l.claims--
	l.admits.Release(1 + l.window - before)
}

// Renewed notes for how long a renewal has waited in this process.
func (ns *Nodes) Renewed(waited, limit time.Duration) {
	l := ns.load
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.at) >= limit { // as in Queued
		l.queued = 0
	}
	weight := min(1./4, max(1./64, float64(now.Sub(l.at))/float64(limit))) // one that was late is no load
	l.queued += (min(1, float64(waited)/float64(limit)) - l.queued) * weight
	if l.at = now; l.queued > tooLong && now.Add(10*limit).After(l.until) {
		l.until = now.Add(10 * limit)
	}
}

// Queued returns for how long renewals have waited in this process lately, as a part of their time-out; 0 if none was
// answered for so long.
func (ns *Nodes) Queued(limit time.Duration) float64 {
	ns.load.mu.Lock()
	defer ns.load.mu.Unlock()
	if time.Since(ns.load.at) >= limit {
		return 0
	}
	return ns.load.queued
}

// Overload returns how many elections are too many for this process: renewals have waited in it within two leases for so long
// that terms may end. 0: they have not.
func (ns *Nodes) Overload() (elections int) {
	ns.load.mu.Lock()
	defer ns.load.mu.Unlock()
	if !time.Now().Before(ns.load.until) {
		return 0
	}
	return ns.users.Count()
}

package console

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

const (
	readEvery   = time.Second            // and more often with a lease below 4 s,
	readLeast   = 250 * time.Millisecond // but no more than this
	readTimeout = 1700 * time.Millisecond
	readPause   = 100 * time.Millisecond // at least, however much happens
	rollEvery   = 10 * time.Second
	rollSoon    = 400 * time.Millisecond // after a change
	rollDenied  = time.Minute            // where the Redis user may not: each refusal disturbs the subscription
	rollTimeout = 2 * time.Second
	// The terms are asked for at a change, and for some looks after it: the words
	// about it follow the change itself.
	recallFor   = 3
	recallEvery = 15 // looks
	rememberFor = time.Minute
)

// limits are how many questions all followers ask at a time: enough to hide the
// round trips, little enough for the Redis that others work with.
type limits struct{ looks, rolls chan struct{} }

func newLimits() limits {
	return limits{make(chan struct{}, 16), make(chan struct{}, 8)}
}

// ask runs a question when it is its turn.
func ask(ctx context.Context, turns chan struct{}, within time.Duration, question func(context.Context)) {
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	question(ctx)
}

// follower keeps one election's entries of the cache up to date.
type follower struct {
	c        *Console
	election string
	limits   limits

	token  uint64        // of the newest leader that was seen
	led    bool          // somebody led when last seen
	lease  time.Duration // the longest that was left of its lease: the whole bar
	recall int           // for how many looks the terms are asked for
	looks  int

	seen map[string]lastSeen // by incarnation; of rolls only
}

// lastSeen is when a candidate answered.
type lastSeen struct {
	elector.CandidateStatus
	at time.Time
}

func (f *follower) run(ctx context.Context) {
	defer f.c.cache.drop(f.election)
	el, err := f.c.cfg.Quorum.Election(f.election)
	if err != nil { // whoever may write to Redis can make such a key
		f.c.cache.set(kindStatus, f.election, status{Election: f.election, Nodes: []node{}, Error: problemText(err)})
		<-ctx.Done()
		return
	}
	changes := make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { f.callRolls(ctx, el, changes) })
	events := make(chan struct{}, 1)
	wg.Go(func() {
		for range el.Observe(ctx) { // that something has changed is enough: look reads what
			select {
			case events <- struct{}{}:
			default:
			}
		}
	})
	tick := time.NewTimer(readEvery)
	defer tick.Stop()
	f.recall = 1
	for {
		if f.look(ctx, el) {
			select {
			case changes <- struct{}{}:
			default:
			}
		}
		if !pause(ctx, readPause) {
			return
		}
		// A bar that is looked at less often than the lease is renewed would jump.
		tick.Reset(f.pace())
		select {
		case <-events:
			f.recall = max(f.recall, recallFor)
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (f *follower) pace() time.Duration {
	if !f.led {
		return readEvery
	}
	return min(readEvery, max(f.lease/4, readLeast))
}

// look asks who leads, and for the terms when they may have changed. True: there
// is another leader, or none any more.
func (f *follower) look(ctx context.Context, el *elector.Election) (changed bool) {
	ask(ctx, f.limits.looks, readTimeout, func(asking context.Context) {
		st, err := el.Status(asking)
		if ctx.Err() != nil {
			return
		}
		s := statusOf(f.election, st, err, time.Now())
		changed = f.compare(st, err)
		if s.Leader != nil {
			s.Leader.LeaseMS = f.lease.Milliseconds()
		}
		f.c.cache.set(kindStatus, f.election, s)
	})
	f.looks++
	if f.recall == 0 && f.looks%recallEvery != 0 {
		return changed
	}
	f.recall = max(0, f.recall-1)
	ask(ctx, f.limits.looks, 2*readTimeout, func(asking context.Context) {
		records, err := el.History(asking, maxTerms)
		if ctx.Err() == nil {
			f.c.cache.set(kindTerms, f.election, termsOf(f.election, records, err))
		}
	})
	return changed
}

// compare notes who leads.
func (f *follower) compare(st elector.Status, err error) (changed bool) {
	switch l := st.Leader; {
	case l != nil && l.Token != f.token:
		f.token, f.led, f.lease, changed = l.Token, true, l.LeaseLeft, true
	case l != nil:
		f.led, f.lease, changed = true, max(f.lease, l.LeaseLeft), !f.led
	case err == nil:
		f.led, changed = false, f.led
	}
	if changed {
		f.recall = recallFor
	}
	return changed
}

// callRolls calls the roll now and then, and soon after each change.
func (f *follower) callRolls(ctx context.Context, el *elector.Election, changes <-chan struct{}) {
	for {
		again, soon := rollEvery, changes
		if denied := f.callRoll(ctx, el); denied {
			again, soon = rollDenied, nil
		}
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
		case <-soon:
			pause(ctx, rollSoon) // who stepped down rests by now
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

func (f *follower) callRoll(ctx context.Context, el *elector.Election) (denied bool) {
	ask(ctx, f.limits.rolls, rollTimeout, func(asking context.Context) {
		all, err := el.Candidates(asking)
		if ctx.Err() == nil {
			f.c.cache.set(kindRoll, f.election, f.rollOf(all, err, time.Now()))
		}
		denied = errors.Is(err, elector.ErrDenied)
	})
	return denied
}

// rollOf is who answered, and who did so until a moment ago: one that hangs or is
// cut off must not just disappear from the page.
func (f *follower) rollOf(all []elector.CandidateStatus, err error, now time.Time) roll {
	r := roll{Election: f.election, Candidates: []candidate{}, Error: problemText(err)}
	ids := map[string]bool{}
	for i, c := range all {
		if i >= maxCandidates {
			r.Hidden++
			continue
		}
		ids[c.ID] = true
		f.seen[c.Incarnation] = lastSeen{c, now}
		one := candidateOf(c, 0)
		one.Mark = markOf(c, all)
		r.Candidates = append(r.Candidates, one)
	}
	var silent []lastSeen
	for incarnation, s := range f.seen {
		switch {
		case s.at.Equal(now):
		case now.Sub(s.at) > rememberFor, ids[s.ID]: // the other one is its next life
			delete(f.seen, incarnation)
		default:
			silent = append(silent, s)
		}
	}
	slices.SortFunc(silent, func(a, b lastSeen) int { return b.at.Compare(a.at) })
	for _, s := range silent {
		if len(r.Candidates) < maxCandidates {
			r.Candidates = append(r.Candidates, candidateOf(s.CandidateStatus, now.Sub(s.at)))
		}
	}
	return r
}

// markOf is what the answers of one roll call tell against a candidate: they may be two
// leaders soon, or nobody can tell them apart.
func markOf(c elector.CandidateStatus, all []elector.CandidateStatus) string {
	for _, o := range all {
		if o.ID == c.ID && o.Incarnation != c.Incarnation {
			return "another candidate has the same id: give each its own id"
		}
	}
	for _, o := range all {
		if !c.SameNodes(o) {
			return "votes with other Redis nodes than " + bounded(o.ID) + ", so both can lead: give all the same list"
		}
	}
	return ""
}

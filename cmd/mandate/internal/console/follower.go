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
	// Longer than a roll call takes beside a node that hangs (3 s): one that is cut off
	// would show healthy candidates as silent.
	rollTimeout = 4 * time.Second
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

	mu     sync.Mutex // the roll is called beside the looks
	status elector.Status
	read   time.Time // when that was; zero: never
	ledAt  time.Time // when somebody led, last
	missed time.Time // since when nobody has, as far as this follower saw it; zero: somebody does
	err    error     // of the last look
	// answered: a node answered it with an error, about this election perhaps.
	answered bool
	count    count
	brief    brief
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
		f.err, f.answered = err, true
		f.show(time.Now())
		f.c.cache.set(kindStatus, f.election, status{Election: f.election, Nodes: []node{}, Error: problemText(err)})
		<-ctx.Done()
		return
	}
	changes := make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { f.callRolls(ctx, el, changes) })
	events := make(chan struct{}, 1)
	unwatch := func() {}
	defer func() { unwatch() }()
	tick := time.NewTimer(readEvery)
	defer tick.Stop()
	f.recall = 1
	var before attended
	for {
		now, attention := f.c.attention.of(f.election)
		if now.open && !before.open {
			f.recall = max(f.recall, 1)
		}
		if now.close != before.close {
			unwatch()
			unwatch = func() {}
			if now.close {
				watching, stop := context.WithCancel(ctx)
				unwatch = stop
				wg.Go(func() { observe(watching, el, events) })
			}
		}
		before = now
		if f.look(ctx, el, now) {
			select {
			case changes <- struct{}{}:
			default:
			}
		}
		if !pause(ctx, readPause) {
			return
		}
		tick.Reset(f.pace(now))
		for waiting := true; waiting; {
			waiting = false
			select {
			case <-events:
				f.recall = max(f.recall, recallFor)
			case <-tick.C:
			case <-attention: // usually somebody opened another one
				var next attended
				next, attention = f.c.attention.of(f.election)
				waiting = next.open == before.open && next.close == before.close
			case <-ctx.Done():
			}
		}
	}
}

// observe notes that something has changed: look reads what.
func observe(ctx context.Context, el *elector.Election, events chan<- struct{}) {
	for range el.Observe(ctx) {
		select {
		case events <- struct{}{}:
		default:
		}
	}
}

// pace is the time until the next look. A bar that is looked at less often than the lease
// is renewed would jump.
func (f *follower) pace(at attended) time.Duration {
	if !f.led || !at.close || at.look > readEvery {
		return at.look
	}
	return min(readEvery, max(f.lease/4, readLeast))
}

// look asks who leads, and for the terms when they may have changed. True: there
// is another leader, or none any more.
func (f *follower) look(ctx context.Context, el *elector.Election, at attended) (changed bool) {
	ask(ctx, f.limits.looks, readTimeout, func(asking context.Context) {
		st, err := el.Status(asking)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		f.c.nodes.note(st.Nodes, now)
		changed = f.compare(st, err)
		f.mu.Lock()
		f.answered = slices.ContainsFunc(st.Nodes, func(n elector.NodeStatus) bool { return n.Error != "" && n.Answered })
		if f.err = err; err == nil {
			f.status, f.read = st, now
			if st.Leader != nil {
				f.ledAt, f.missed = now, time.Time{}
			} else if f.missed.IsZero() {
				f.missed = now
			}
		}
		f.mu.Unlock()
		f.show(now)
		if !at.open {
			f.c.cache.forget(f.election)
			return
		}
		f.c.cache.set(kindStatus, f.election, f.statusAt(st, err, now))
	})
	f.looks++
	if f.recall == 0 && f.looks%recallEvery != 0 {
		return changed
	}
	f.recall = max(0, f.recall-1)
	ask(ctx, f.limits.looks, 2*readTimeout, func(asking context.Context) {
		n := rowTerms
		if at.open {
			n = maxTerms
		}
		records, err := el.History(asking, n)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			f.mu.Lock()
			f.brief = briefOf(records, time.Now())
			f.mu.Unlock()
			f.show(time.Now())
			f.c.cache.set(kindPast, f.election, pastOf(f.election, records))
		}
		// What was read before stays where nothing can be read now.
		if t := termsOf(f.election, records, err); at.open && (err == nil || !f.c.cache.has(kindTerms, f.election)) {
			f.c.cache.set(kindTerms, f.election, t)
		}
	})
	return changed
}

// statusAt is what a card shows: where nothing can be read, what was known before.
func (f *follower) statusAt(st elector.Status, err error, now time.Time) status {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && !f.read.IsZero() {
		s := statusOf(f.election, f.status, err, f.read)
		s.AsOfMS = f.read.UnixMilli()
		s.Nodes = statusOf(f.election, st, nil, now).Nodes
		if s.Leader != nil {
			s.Leader.LeaseMS = f.lease.Milliseconds()
		}
		return s
	}
	s := statusOf(f.election, st, err, now)
	if s.Leader != nil {
		s.Leader.LeaseMS = f.lease.Milliseconds()
	}
	return s
}

// show sets the row.
func (f *follower) show(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var r row
	switch {
	case !f.read.IsZero():
		r = rowOf(f.election, f.status, f.lease, f.count, f.brief, f.ledAt, f.missed, now)
	case f.err != nil:
		r = row{Election: f.election, State: stateUnknown, Of: -1}
	default:
		return
	}
	if f.err != nil && !f.read.IsZero() {
		r.AsOfMS = f.read.UnixMilli()
	}
	if f.err != nil && f.answered { // that no node answers stands above the table, once
		r.Error = cut(problemText(f.err), rowDetail)
	}
	f.c.cache.set(kindRow, f.election, r)
}

// compare notes who leads.
func (f *follower) compare(st elector.Status, err error) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
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
		at, attention := f.c.attention.of(f.election)
		again, soon := at.roll, changes
		if denied := f.callRoll(ctx, el, at.open); denied {
			again, soon, attention = rollDenied, nil, nil
		}
		timer := time.NewTimer(again)
		for waiting := true; waiting; {
			waiting = false
			select {
			case <-timer.C:
			case <-soon:
				pause(ctx, rollSoon) // who stepped down rests by now
			case <-attention:
				var next attended
				next, attention = f.c.attention.of(f.election)
				waiting = !next.open || at.open
			case <-ctx.Done():
			}
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

func (f *follower) callRoll(ctx context.Context, el *elector.Election, open bool) (denied bool) {
	ask(ctx, f.limits.rolls, rollTimeout, func(asking context.Context) {
		leader := ""
		f.mu.Lock()
		if l := f.status.Leader; l != nil {
			leader = l.Incarnation
		}
		f.mu.Unlock()
		all, err := el.Candidates(asking)
		denied = errors.Is(err, elector.ErrDenied)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = asking.Err() // a roll that was cut off tells nothing of those that are missing
		}
		now := time.Now()
		if err == nil {
			f.mu.Lock()
			f.count = countOf(all, leader)
			f.mu.Unlock()
			f.show(now)
		}
		if r := f.rollOf(all, err, now); open && (err == nil || !f.c.cache.has(kindRoll, f.election)) {
			f.c.cache.set(kindRoll, f.election, r)
		}
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

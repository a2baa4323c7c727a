package console

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

const (
	readTimeout = 1700 * time.Millisecond
	readPause   = 100 * time.Millisecond // minimum pause between two reads, however many events arrive
	minPace     = 250 * time.Millisecond // minimum time between two reads, with a lease below 1 s
	// The terms are read at a change and at some later reads: a leader reports to the history only
	// after the change itself.
	recallFor   = 3
	recallEvery = 15 // reads of the status
)

// follower keeps one election's entries of the cache up to date.
type follower struct {
	cache     *cache
	nodes     *nodeCache
	attention *attention
	limits    limits
	known     *known

	recall int // how many more reads of the status also read the terms
	looks  int
}

func (f *follower) run(ctx context.Context, quorum *elector.Quorum) {
	name := f.known.election
	if f.known.inGroup {
		defer f.cache.forget(name)
	} else {
		defer f.cache.drop(name)
	}
	defer f.known.hosts.drop(name)
	el, err := quorum.Election(name)
	if err != nil { // anyone who may write to Redis can make a key with an invalid name
		f.known.misnamed(err, time.Now())
		f.cache.set(kindStatus, name, status{Election: name, Nodes: []node{}, Error: problemText(err)})
		<-ctx.Done()
		return
	}
	changes := make(chan struct{}, 1)
	var wg sync.WaitGroup
	defer wg.Wait()
	roll := &roller{cache: f.cache, attention: f.attention, turns: f.limits.rolls, known: f.known, seen: map[string]lastSeen{}}
	wg.Go(func() { roll.run(ctx, el, changes) })
	f.follow(ctx, el, changes, &wg)
}

// follow reads the election until ctx ends, and sends to changes when the leader has changed.
func (f *follower) follow(ctx context.Context, el *elector.Election, changes chan<- struct{}, wg *sync.WaitGroup) {
	events := make(chan struct{}, 1)
	unwatch := func() {}
	defer func() { unwatch() }()
	f.recall = 1
	var before attended
	for {
		now, attention := f.attention.of(el.Name())
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
		if !sleep(ctx, readPause) {
			return
		}
		f.wait(ctx, now, attention, events)
	}
}

// wait returns when the election should be read again.
func (f *follower) wait(ctx context.Context, at attended, attention <-chan struct{}, events <-chan struct{}) {
	tick := time.NewTimer(f.pace(at))
	defer tick.Stop()
	for {
		select {
		case <-events:
			f.recall = max(f.recall, recallFor)
			return
		case <-tick.C:
			return
		case <-ctx.Done():
			return
		case <-attention: // usually a viewer has opened another election
			var next attended
			next, attention = f.attention.of(f.known.election)
			if next.open != at.open || next.close != at.close || next.idle != at.idle {
				return
			}
		}
	}
}

// observe signals that something has changed; look then reads the state.
func observe(ctx context.Context, el *elector.Election, events chan<- struct{}) {
	for range el.Observe(ctx) {
		select {
		case events <- struct{}{}:
		default:
		}
	}
}

// pace returns the time until the next read. If the election was read less often than its lease is
// renewed, the lease bar would jump.
func (f *follower) pace(at attended) time.Duration {
	lease := f.known.bar()
	if lease == 0 || !at.close || at.look > readEvery {
		return at.look
	}
	return min(readEvery, max(lease/4, minPace))
}

// look reads the status, and the terms if they may have changed. It reports whether the leader has
// changed, or there is none any more.
func (f *follower) look(ctx context.Context, el *elector.Election, at attended) (changed bool) {
	f.limits.looks.query(ctx, readTimeout, func(reading context.Context) {
		st, err := el.Status(reading)
		if ctx.Err() != nil {
			return
		}
		now := time.Now()
		f.nodes.note(st.Nodes, now)
		if changed = f.known.look(st, err, now); changed {
			f.recall = recallFor
		}
		if !at.open {
			f.cache.forget(el.Name())
			return
		}
		f.cache.set(kindStatus, el.Name(), f.known.statusAt(st, err, now))
	})
	f.looks++
	if f.recall > 0 || f.looks%recallEvery == 0 {
		f.recall = max(0, f.recall-1)
		f.readTerms(ctx, el, at)
	}
	return changed
}

func (f *follower) readTerms(ctx context.Context, el *elector.Election, at attended) {
	f.limits.looks.query(ctx, 2*readTimeout, func(reading context.Context) {
		n := rowTerms
		if at.open {
			n = maxTerms
		}
		records, err := el.History(reading, n)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			f.known.terms(records, time.Now())
			if !f.known.inGroup {
				f.cache.set(kindPast, el.Name(), pastOf(el.Name(), records))
			}
		}
		// If nothing can be read now, keep what was read before.
		if t := termsOf(el.Name(), records, err); at.open && (err == nil || !f.cache.has(kindTerms, el.Name())) {
			f.cache.set(kindTerms, el.Name(), t)
		}
	})
}

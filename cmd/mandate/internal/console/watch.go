package console

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

const (
	linger      = 5 * time.Second  // the watch continues for so long without a viewer: a reload
	listEvery   = 10 * time.Second // between two looks for new elections
	listAgain   = 2 * time.Second  // after one that failed
	listShare   = 50               // a look through a large Redis takes at most this part of the time
	listTimeout = 2 * time.Second
	hostsEvery  = time.Second
)

// watch follows the elections while there are viewers.
type watch struct {
	quorum    *elector.Quorum
	elections []string // to show; empty: all
	max       int      // that are shown
	actions   bool     // the page has buttons

	cache     *cache
	nodes     *nodeCache
	viewers   *viewers
	attention *attention
	hosts     *hostCache
}

// run lasts until ctx ends.
func (w *watch) run(ctx context.Context) {
	for {
		there, changed := w.viewers.there()
		if there {
			w.watchFor(ctx)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// watchFor follows them until there has been no viewer for a while.
func (w *watch) watchFor(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer w.cache.clear()
	defer w.nodes.clear()
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { w.follow(ctx) })
	wg.Go(func() { w.showNodes(ctx) })
	wg.Go(func() { w.showHosts(ctx) })
	for {
		there, changed := w.viewers.there()
		var over <-chan time.Time
		if !there {
			over = time.After(linger)
		}
		select {
		case <-changed:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// showNodes keeps the entry of the Redis nodes up to date.
func (w *watch) showNodes(ctx context.Context) {
	for every := readPause; sleep(ctx, every); {
		if w.attention.followed() == 0 {
			w.readNodes(ctx)
		}
		if s, read := w.nodes.state(time.Now()); read {
			w.cache.set(kindRedis, "", s)
			every = nodesEvery
		}
	}
}

// showHosts keeps the entry of the hosts up to date.
func (w *watch) showHosts(ctx context.Context) {
	for sleep(ctx, hostsEvery) {
		if list, changed := w.hosts.list(); changed {
			w.cache.set(kindHosts, "", list)
		}
	}
}

// readNodes reads the nodes while no election is followed: there is none yet, or none could be
// listed because no node answers. It looks at one that need not be there.
func (w *watch) readNodes(ctx context.Context) {
	el, err := w.quorum.Election("mandate-console")
	if err != nil { // not with this name
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	st, _ := el.Status(ctx) // with the nodes' errors
	w.nodes.note(st.Nodes, time.Now())
}

// follow keeps a follower for each election that there is.
func (w *watch) follow(ctx context.Context) {
	followed := map[string]context.CancelFunc{}
	var wg sync.WaitGroup
	defer w.attention.follow(0)
	defer wg.Wait()
	queries := newLimits()
	for {
		began := time.Now()
		names, s, complete := w.names(ctx)
		if ctx.Err() != nil {
			return
		}
		w.cache.set(kindSite, "", s)
		w.attention.follow(max(len(names), len(followed))) // a list that failed is empty
		there := map[string]bool{}
		for _, name := range names {
			there[name] = true
			if followed[name] == nil {
				one, stop := context.WithCancel(ctx)
				followed[name] = stop
				f := &follower{cache: w.cache, nodes: w.nodes, attention: w.attention, limits: queries, known: &known{election: name, cache: w.cache, hosts: w.hosts}}
				wg.Go(func() { f.run(one, w.quorum) })
			}
		}
		for name, stop := range followed {
			if complete && !there[name] {
				stop()
				delete(followed, name)
			}
		}
		next := max(listEvery, listShare*time.Since(began))
		if !complete {
			next = listAgain
		}
		if !sleep(ctx, next) {
			return
		}
	}
}

// names are the elections to show. complete is false when some may be missing.
func (w *watch) names(ctx context.Context) (names []string, s site, complete bool) {
	s = site{Prefix: w.quorum.Prefix(), Actions: w.actions}
	if len(w.elections) > 0 {
		return w.elections, s, true
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	names, err := w.quorum.Elections(ctx)
	s.Problem = problemText(err)
	if limit := w.max; len(names) > limit {
		names, s.Hidden = names[:limit], len(names)-limit
	}
	return names, s, err == nil
}

package console

import (
	"context"
	"sync"
	"time"
)

const (
	linger      = 5 * time.Second  // the watch goes on for so long when nobody watches: a reload
	listEvery   = 10 * time.Second // between two looks for new elections
	listAgain   = 2 * time.Second  // after one that failed
	listShare   = 50               // a look through a large Redis takes at most this part of the time
	listTimeout = 2 * time.Second
)

// viewers counts the viewers.
type viewers struct {
	mu      sync.Mutex
	n, max  int
	changed chan struct{} // closed when the first one comes or the last one leaves
}

func newViewers(limit int) *viewers {
	return &viewers{max: limit, changed: make(chan struct{})}
}

// enter is false when there are too many already.
func (v *viewers) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n >= v.max {
		return false
	}
	v.n++
	if v.n == 1 {
		v.wake()
	}
	return true
}

func (v *viewers) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n--
	if v.n == 0 {
		v.wake()
	}
}

// wake is called with the lock held.
func (v *viewers) wake() {
	close(v.changed)
	v.changed = make(chan struct{})
}

func (v *viewers) there() (bool, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.n > 0, v.changed
}

// watch follows the elections while somebody looks, until ctx ends.
func (c *Console) watch(ctx context.Context) {
	for {
		there, changed := c.viewers.there()
		if there {
			c.watchFor(ctx)
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

// watchFor follows them until nobody has looked for a while.
func (c *Console) watchFor(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer c.cache.clear()
	defer c.nodes.clear()
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { c.follow(ctx) })
	wg.Go(func() { c.showNodes(ctx) })
	for {
		there, changed := c.viewers.there()
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
func (c *Console) showNodes(ctx context.Context) {
	for every := readPause; pause(ctx, every); {
		if s, read := c.nodes.state(time.Now()); read {
			c.cache.set(kindRedis, "", s)
			every = nodesEvery
		}
	}
}

// follow keeps a follower for each election that there is.
func (c *Console) follow(ctx context.Context) {
	followed := map[string]context.CancelFunc{}
	var wg sync.WaitGroup
	defer wg.Wait()
	asks := newLimits()
	for {
		began := time.Now()
		names, s, complete := c.names(ctx)
		if ctx.Err() != nil {
			return
		}
		c.cache.set(kindSite, "", s)
		c.attention.follow(len(names))
		there := map[string]bool{}
		for _, name := range names {
			there[name] = true
			if followed[name] == nil {
				one, stop := context.WithCancel(ctx)
				followed[name] = stop
				f := &follower{c: c, election: name, limits: asks, seen: map[string]lastSeen{}}
				wg.Go(func() { f.run(one) })
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
		if !pause(ctx, next) {
			return
		}
	}
}

// names are the elections to show. complete is false when some may be missing.
func (c *Console) names(ctx context.Context) (names []string, s site, complete bool) {
	s = site{Prefix: c.cfg.Quorum.Prefix(), Actions: c.cfg.Token != ""}
	if len(c.cfg.Elections) > 0 {
		return c.cfg.Elections, s, true
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	names, err := c.cfg.Quorum.Elections(ctx)
	s.Problem = problemText(err)
	if limit := c.cfg.MaxElections; len(names) > limit {
		names, s.Hidden = names[:limit], len(names)-limit
	}
	return names, s, err == nil
}

// pause is false when ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

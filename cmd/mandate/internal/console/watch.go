package console

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/listing"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

const (
	linger      = 5 * time.Second  // how long the watch continues without a viewer, such as during a reload
	listEvery   = 10 * time.Second // between two listings of the elections
	listAgain   = 2 * time.Second  // after a listing that no majority of the nodes answered
	listShare   = 50               // the pause after a listing is at least this many times as long as the listing took
	listTimeout = 2 * time.Second
	hostsEvery  = time.Second
)

// watch follows the elections while there are viewers.
type watch struct {
	quorum    *elector.Quorum
	elections []string        // the elections or groups to show; empty: all
	groups    map[string]bool // those of the named ones that have been groups; owned by the goroutine of follow
	max       int             // how many elections are shown
	actions   bool            // the page has buttons

	viewers *viewers
	display
}

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

// watchFor follows the elections until there has been no viewer for a while.
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

// readNodes reads the nodes while no election is followed, because there is none yet or because no
// node answers. It reads the status of an election that need not exist.
func (w *watch) readNodes(ctx context.Context) {
	el, err := w.quorum.Election("mandate-console")
	if err != nil { // impossible with this name
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	st, _ := el.Status(ctx) // the status has the errors of the nodes
	w.nodes.note(st.Nodes, time.Now())
}

// follow keeps a follower for each election and each group that exists, and for the shards that
// viewers have opened.
func (w *watch) follow(ctx context.Context) {
	defer w.attention.follow(0, nil)
	f := newFollowers(ctx, w.quorum, w.display)
	defer f.wait()
	for {
		began := time.Now()
		used, idle, s, err := w.names(ctx)
		if ctx.Err() != nil {
			return
		}
		shown := w.layout(ctx, used, idle, &s)
		w.cache.set(kindSite, "", s)
		f.listed(shown, err == nil)
		w.attention.follow(max(len(shown.elections), f.elections.count()), idleAmong(shown.elections, idle)) // a listing that failed is empty
		timer := time.NewTimer(listPause(err, w.quorum.Size(), time.Since(began)))
		for waiting := true; waiting; {
			open, changed := w.attention.isOpen()
			f.opened(open)
			select {
			case <-timer.C:
				waiting = false
			case <-changed:
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}
}

// listPause returns the pause after a listing that took so long. If no node could be listed
// completely, the servers were busy with the listing, or have more keys than it reads, and the next
// one would cost as much.
func listPause(err error, nodes int, took time.Duration) time.Duration {
	var failed *elector.QuorumError
	switch {
	case errors.Is(err, elector.ErrUnreachable):
		return listAgain
	case errors.As(err, &failed) && len(failed.Nodes) < nodes:
		return listEvery // a node that hangs took the time, without load
	default:
		return max(listEvery, listShare*took)
	}
}

// names returns the elections to show, those in use and the idle ones. With an error some may be
// missing.
func (w *watch) names(ctx context.Context) (used, idle []string, s site, err error) {
	s = site{Prefix: w.quorum.Prefix(), Actions: w.actions}
	if len(w.elections) > 0 {
		return w.elections, nil, s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	used, idle, err = w.quorum.ElectionsByUse(ctx)
	s.Problem = problemText(err)
	return used, idle, s, err
}

// layout arranges a list for the page, with the shards of each group as one row.
func (w *watch) layout(ctx context.Context, used, idle []string, s *site) shown {
	var all shown
	if len(w.elections) > 0 {
		return w.named(ctx, used)
	}
	others, groups, left := listing.Fold(slices.Concat(used, idle), listing.MaxGroups)
	all.elections, all.groups = fitting(ctx, w.quorum, w.max, others, idle), map[string]int{}
	s.Hidden = len(others) - len(all.elections) + left
	for _, g := range groups {
		if !slices.Contains(others, g.Name) { // otherwise its name is that of an election, too, which is shown with that problem
			all.groups[g.Name] = len(g.Shards)
		}
	}
	return all
}

// named returns what the console was started for. A name that has been a group remains a group.
func (w *watch) named(ctx context.Context, names []string) shown {
	all := shown{groups: map[string]int{}}
	is := make([]bool, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			st, err := shard.Read(ctx, w.quorum, name)
			is[i] = err == nil && st.Shards > 0
		})
	}
	wg.Wait()
	for i, name := range names {
		if is[i] || w.groups[name] {
			w.groups[name] = true
			all.groups[name] = 0
		} else {
			all.elections = append(all.elections, name)
		}
	}
	return all
}

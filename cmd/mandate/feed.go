package main

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/shard"
)

// The status of each election is read once a second, and its candidates and terms every 5 s, and
// soon after a change. With many elections both take longer, so that all rows together cost Redis
// no more than 200 reads of a status and 10 roll calls a second.
const (
	lookEvery   = time.Second
	lookShare   = 5 * time.Millisecond
	lookTimeout = 3 * time.Second // two time-outs of a node that hangs
	callEvery   = 5 * time.Second
	callShare   = 100 * time.Millisecond
	callTimeout = 5 * time.Second // longer than a roll call takes when a node or a candidate hangs
	settle      = time.Second     // until a leader has reported the end of its term
	listEvery   = 10 * time.Second
	listRarely  = time.Minute // where a listing takes long
	listShare   = 50          // the pause is this many times as long as the listing took
	listTimeout = 2 * time.Second
	maxRows     = 2000 // elections
)

// feed keeps the rows of the console's page up to date, while it has viewers.
type feed struct {
	quorum       *elector.Quorum
	names        []string // the elections or groups to show; empty: all
	flags        nextFlags
	page         *console.Page
	looks, calls turns
	rows         atomic.Int64 // how many are followed
	listed       atomic.Pointer[console.Site]
}

// turns is a semaphore that bounds how many queries run concurrently.
type turns chan struct{}

// query calls run with a context that ends within d, when fewer queries than the limit are running.
// It does not if ctx ends before.
func (t turns) query(ctx context.Context, d time.Duration, run func(context.Context)) {
	select {
	case t <- struct{}{}:
		defer func() { <-t }()
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	run(ctx)
}

// pace returns the pause between two reads of one row: at least every, and share for each row.
func (f *feed) pace(every, share time.Duration) time.Duration {
	return max(every, time.Duration(f.rows.Load())*share)
}

func (f *feed) run(ctx context.Context) {
	for {
		viewed, err := f.page.Viewed(ctx)
		if err != nil {
			return
		}
		f.follow(viewed)
		f.page.Clear()
	}
}

// follow keeps a goroutine for each election and each group that exists, until ctx ends.
func (f *feed) follow(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	f.listed.Store(&console.Site{})
	wg.Go(func() { f.followSite(ctx) })
	running := map[string]context.CancelFunc{}
	groups := map[string]bool{}
	for ctx.Err() == nil {
		began := time.Now()
		all, complete := f.list(ctx, groups)
		for name, run := range all {
			if running[name] != nil {
				continue
			}
			following, stop := context.WithCancel(ctx)
			running[name] = stop
			wg.Go(func() {
				defer f.page.Remove(name)
				run(following)
			})
		}
		for name, stop := range running {
			if all[name] == nil && complete { // what is missing in an incomplete list may still exist
				stop()
				delete(running, name)
			}
		}
		f.rows.Store(int64(len(running)))
		pause := listEvery
		if len(all) > 0 { // otherwise the nodes do not answer
			pause = max(listEvery, min(listShare*time.Since(began), listRarely))
		}
		sleep(ctx, pause)
	}
}

// list returns what keeps each row up to date, by the name of the row, and whether that is all. It
// adds to groups what is a group: when its members are gone, it still is one.
func (f *feed) list(ctx context.Context, groups map[string]bool) (all map[string]func(context.Context), complete bool) {
	all = map[string]func(context.Context){}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	for _, name := range f.names {
		if groups[name] = groups[name] || namesGroup(ctx, f.quorum, name); groups[name] {
			all[name+"/*"] = func(ctx context.Context) { f.followGroup(ctx, listedGroup{name: name}) }
		} else {
			all[name] = func(ctx context.Context) { f.followElection(ctx, name) }
		}
	}
	if len(f.names) > 0 {
		return all, true
	}
	used, idle, err := f.quorum.ElectionsByUse(ctx)
	others, folded, left := fold(append(used, idle...), maxGroups)
	shown := others[:min(maxRows, len(others))]
	for _, name := range shown {
		all[name] = func(ctx context.Context) { f.followElection(ctx, name) }
	}
	for _, g := range folded {
		all[g.name+"/*"] = func(ctx context.Context) { f.followGroup(ctx, g) }
	}
	site := &console.Site{Hidden: len(others) - len(shown) + left}
	if err != nil {
		site.Problem = elector.Problem(err)
	}
	f.listed.Store(site)
	return all, err == nil
}

// followSite shows every second which nodes answer, by the status of an election that need not exist.
func (f *feed) followSite(ctx context.Context) {
	el, err := f.quorum.Election(append(f.names[:len(f.names):len(f.names)], "mandate-console")[0])
	if err != nil { // impossible with these names
		return
	}
	known := time.Time{}
	for ; ctx.Err() == nil; sleep(ctx, lookEvery) {
		reading, done := context.WithTimeout(ctx, lookTimeout)
		st, _ := el.Status(reading) // it has the errors of the nodes
		done()
		if ctx.Err() != nil {
			return
		}
		now, site := time.Now(), *f.listed.Load()
		site.Prefix, site.NowMS, site.Known = f.quorum.Prefix(), now.UnixMilli(), majorityAnswered(st)
		if site.Known {
			known = now
		} else {
			site.AsOfMS = millis(known)
		}
		for _, n := range st.Nodes {
			site.Nodes = append(site.Nodes, console.Node{Name: n.Node, Error: n.Error})
		}
		f.page.ShowSite(site)
	}
}

func (f *feed) followElection(ctx context.Context, name string) {
	el, err := f.quorum.Election(name)
	if err != nil { // anyone who may write to Redis can make a key with an invalid name
		f.page.Show(console.Row{Election: name, State: stateUnknown, Problem: elector.Problem(err)})
		<-ctx.Done()
		return
	}
	for changed := false; ctx.Err() == nil; {
		var r report
		f.calls.query(ctx, callTimeout, func(reading context.Context) { r.Report = doctor.Read(reading, el) })
		if ctx.Err() != nil {
			return
		}
		r.Election = name
		f.show(&r)
		every := f.pace(callEvery, callShare)
		if changed {
			every = settle
		}
		changed = f.await(ctx, el, &r, every)
	}
}

// await returns when something has changed since the report, which it has then shown, or after d.
func (f *feed) await(ctx context.Context, el *elector.Election, r *report, d time.Duration) (changed bool) {
	for until := time.Now().Add(d); !changed && ctx.Err() == nil && time.Now().Before(until); {
		sleep(ctx, min(f.pace(lookEvery, lookShare), time.Until(until)))
		f.looks.query(ctx, lookTimeout, func(reading context.Context) {
			st, err := el.Status(reading)
			if changed = ctx.Err() == nil && (err == nil) != (r.StatusErr == nil) || err == nil && different(st, r.Status); changed {
				r.Status, r.At, r.StatusErr, r.Unresponsive = st, time.Now(), err, false
				f.show(r)
			}
		})
	}
	return changed
}

// different reports whether two statuses differ in more than what passes with time.
func different(a, b elector.Status) bool {
	leader := func(st elector.Status) (l elector.Leader) {
		if st.Leader != nil {
			l = *st.Leader
		}
		return l
	}
	x, y := leader(a), leader(b)
	return x.Incarnation != y.Incarnation || x.Token != y.Token || a.Paused != b.Paused || a.Blocked != b.Blocked || a.Conflict != b.Conflict
}

func (f *feed) followGroup(ctx context.Context, g listedGroup) {
	r := g.row()
	for ; ctx.Err() == nil; sleep(ctx, f.pace(lookEvery, lookShare)) {
		f.looks.query(ctx, callTimeout, func(reading context.Context) { r.readGroup(reading, f.quorum) })
		if ctx.Err() == nil {
			f.show(&r)
		}
	}
}

// show shows a report. While no majority of the nodes answers, a row stays as it was: the page says
// as of when everything on it is.
func (f *feed) show(r *report) {
	if errors.Is(r.StatusErr, elector.ErrUnreachable) {
		if !f.page.Shows(r.Election) {
			f.page.Show(console.Row{Election: r.Election, Rank: console.RankProblem, State: stateUnknown})
		}
		return
	}
	r.flags = f.flags
	f.page.Show(r.row())
}

// row returns the report as a row of the page.
func (r *report) row() console.Row {
	why, next := r.problem()
	row := console.Row{Election: r.Election, State: r.state(), Rank: r.rank(why), Problem: why, Next: next}
	if r.group != nil {
		r.group.fill(&row)
		return row
	}
	if l := r.Leader; l != nil {
		row.Leader, row.Address, row.Token, row.SinceMS = l.Candidate, l.Advertise, l.Token, millis(l.Since)
	}
	if r.CandidatesErr == nil {
		row.Able = r.ableOf()
	}
	for _, c := range r.Candidates {
		color, health := candidateHealth(c)
		one := console.Candidate{ID: c.ID, Role: c.Role, Health: strings.ToLower(health), OK: color == output.Plain || color == output.Green, Detail: c.Detail, Version: c.Version, Host: c.Host}
		if c.RestFor > 0 {
			one.Detail = cmp.Or(c.RestReason, c.Detail)
		}
		row.Candidates = append(row.Candidates, one)
	}
	for _, t := range r.Terms {
		row.Terms = append(row.Terms, console.Term{
			Token: t.Token, ID: t.Candidate, Current: t.Current, FromMS: millis(t.From), UntilMS: millis(t.Until),
			Reason: string(t.Reason), Wanted: t.Reason.Wanted(), Detail: t.Detail,
		})
	}
	return row
}

// fill adds a group's owners and members to its row.
func (g *groupReport) fill(row *console.Row) {
	row.Leader, row.Able = g.owned(), g.able()
	for _, m := range g.Members {
		one := console.Candidate{ID: m.ID, Role: "owns " + cmp.Or(shard.Set(m.Owned).String(), "none"), Health: "ok", OK: m.Closed == "", Version: m.Version, Host: m.Host}
		if m.ID == g.Assigner {
			one.Role += "; assigns"
		}
		if m.Closed != "" {
			one.Health = m.Closed
		}
		row.Candidates = append(row.Candidates, one)
	}
}

// rank returns the place of a report in a list with problems first.
func (r *report) rank(problem string) int {
	switch state := r.state(); {
	case state == stateAbandoned:
		return console.RankAbandoned
	case state == statePaused:
		return console.RankPaused
	case state != stateLed:
		return console.RankVacant
	case problem != "":
		return console.RankProblem
	default:
		return console.RankWell
	}
}

// millis returns an instant in milliseconds since 1970; 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
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

// Each row is read once a second, and of more than rowsAtATime so many each second.
const (
	rowEvery    = time.Second
	rowsAtATime = 50
	listEvery   = 10 * time.Second
	listTimeout = 2 * time.Second
	maxRows     = 2000
)

// feed keeps the rows of the console's page up to date, while it has viewers.
type feed struct {
	quorum *elector.Quorum
	names  []string // the elections, or groups as GROUP#*, to show; empty: all
	flags  nextFlags
	page   *console.Page
	listed atomic.Pointer[console.Site] // what the newest listing has found out
}

// listing has the rows that should be shown, before they are read.
type listing struct {
	rows     []report
	complete bool // what is missing here does not exist
}

// run follows the elections whenever somebody looks, until ctx ends.
func (f *feed) run(ctx context.Context) {
	for f.page.AwaitViewer(ctx) == nil {
		f.follow(ctx)
		f.page.Clear()
	}
}

// follow keeps the page up to date until ctx ends or nobody looks any more.
func (f *feed) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	f.listed.Store(&console.Site{})
	listings := make(chan listing)
	wg.Go(func() { f.followSite(ctx) })
	wg.Go(func() { f.followList(ctx, listings) })
	var queue []report // all rows; the first ones are read next
	tick := time.NewTicker(rowEvery)
	defer tick.Stop()
	for f.page.Viewed() {
		select {
		case <-ctx.Done():
			return
		case l := <-listings:
			queue = f.list(queue, l)
		case <-tick.C:
		}
		n := min(rowsAtATime, len(queue))
		_ = readAll(ctx, f.quorum, queue[:n], doctor.RecentTerms) // each row has its error
		nodeProblem(queue[:n])                                    // the page shows the nodes
		for i := range n {
			f.show(&queue[i])
		}
		queue = slices.Concat(queue[n:], queue[:n])
	}
}

// list removes rows that are gone from the queue, and puts those that are new in front. The others take the
// place of those they are listed as, which may have fewer shards.
func (f *feed) list(queue []report, l listing) []report {
	fresh, kept := map[string]report{}, []report(nil)
	for _, r := range l.rows {
		fresh[r.Election] = r
	}
	for _, r := range queue {
		now, listed := fresh[r.Election]
		switch {
		case listed:
			kept = append(kept, now)
			delete(fresh, r.Election)
		case l.complete:
			f.page.Remove(r.Election)
		default:
			kept = append(kept, r)
		}
	}
	return append(slices.DeleteFunc(l.rows, func(r report) bool { return fresh[r.Election].Election == "" }), kept...)
}

// show shows a report. While no majority of the nodes answers, a row stays as it was: the page says
// as of when everything on it is.
func (f *feed) show(r *report) {
	r.flags = f.flags
	switch {
	case !errors.Is(r.StatusErr, elector.ErrUnreachable):
		f.page.Show(r.row())
	case !f.page.Shows(r.Election):
		f.page.Show(console.Row{Election: r.Election, Rank: console.RankProblem, State: stateUnknown})
	}
}

// followList searches for elections until ctx ends.
func (f *feed) followList(ctx context.Context, listings chan<- listing) {
	for ctx.Err() == nil {
		sendTo(ctx, listings, f.search(ctx))
		sleep(ctx, listEvery)
	}
}

func (f *feed) search(ctx context.Context) listing {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if len(f.names) > 0 {
		rows := electionRows(f.names)
		for i, name := range f.names {
			if group, is := strings.CutSuffix(name, allShards); is {
				rows[i] = groupRow(group, nil)
			}
		}
		return listing{rows, true}
	}
	names, err := f.quorum.Elections(ctx)
	rows := foldedRows(names)
	shown := rows[:min(maxRows, len(rows))]
	site := &console.Site{Hidden: len(rows) - len(shown)}
	if err != nil {
		site.Problem = err.Error()
	}
	f.listed.Store(site)
	return listing{shown, err == nil}
}

// followSite shows every second which nodes answer.
func (f *feed) followSite(ctx context.Context) {
	election := append(slices.Clip(f.names), anyElection)[0]
	known := time.Time{}
	for ; ctx.Err() == nil; sleep(ctx, rowEvery) {
		st := readNodes(ctx, f.quorum, election)
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

// row returns the report as a row of the page.
func (r *report) row() console.Row {
	why, next := r.problem()
	row := console.Row{Election: r.Election, State: r.state(), Rank: r.rank(why), Problem: why, Next: next}
	if r.group != nil {
		r.group.fill(&row)
		return row
	}
	if l := cmp.Or(r.Leader, r.MayLead); l != nil {
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
	case r.severalLead():
		return console.RankUrgent
	case state == stateAbandoned, state == stateFinished:
		return console.RankAbandoned
	case state == statePaused:
		return console.RankPaused
	case state != stateLed && state != stateUnknown:
		return console.RankUrgent
	case state == stateUnknown || problem != "":
		return console.RankProblem
	default:
		return console.RankWell
	}
}

// severalLead reports whether two candidates lead at the same time, or hold locks on different nodes.
func (r *report) severalLead() bool {
	return slices.ContainsFunc(r.problems(), func(f doctor.Finding) bool { return f.Check == "leaders" || f.Check == "locks" })
}

// millis returns an instant in milliseconds since 1970; 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

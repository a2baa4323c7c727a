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

// Each row is read once a second, and with many rows no more than 50 of them a second.
const (
	rowEvery    = time.Second
	rowShare    = 20 * time.Millisecond
	rowTimeout  = 5 * time.Second
	listEvery   = 10 * time.Second
	listTimeout = 2 * time.Second
	maxRows     = 2000 // elections
)

// feed keeps the rows of the console's page up to date, while it has viewers.
type feed struct {
	quorum *elector.Quorum
	names  []string // the elections or groups to show; empty: all
	flags  nextFlags
	page   *console.Page
	listed atomic.Pointer[console.Site] // what the newest listing has found out
}

// feedRow is a row of the page. It belongs to the goroutine of follow.
type feedRow struct {
	report // as it is before it is read

	reading bool
	next    time.Time // when to read it again
}

// listing has the rows that should be shown, by their names, as they are before they are read.
type listing struct {
	rows     map[string]report
	complete bool // what is missing here does not exist
}

// run follows the elections whenever somebody looks, until ctx ends.
func (f *feed) run(ctx context.Context) {
	for f.page.AwaitViewer(ctx) == nil {
		f.follow(ctx)
		f.page.Clear()
	}
}

// follow keeps the page up to date until ctx ends or nobody looks any more. Redis is read on other
// goroutines, whose results come on channels: what hangs delays only its own row.
func (f *feed) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	f.listed.Store(&console.Site{})
	listings, readings := make(chan listing), make(chan report)
	wg.Go(func() { f.followSite(ctx) })
	wg.Go(func() { f.followList(ctx, listings) })
	rows := map[string]*feedRow{}
	turns := make(chan struct{}, parallelReads)
	tick := time.NewTicker(rowEvery)
	defer tick.Stop()
	for f.page.Viewed() {
		select {
		case <-ctx.Done():
			return
		case l := <-listings:
			f.list(rows, l)
		case r := <-readings:
			if row := rows[r.Election]; row != nil { // else it was removed meanwhile
				row.reading = false
				f.show(&r)
			}
			continue
		case <-tick.C:
		}
		for _, row := range rows {
			if now := time.Now(); !row.reading && !now.Before(row.next) {
				row.reading, row.next = true, now.Add(max(rowEvery, time.Duration(len(rows))*rowShare))
				wg.Go(func() {
					turns <- struct{}{}
					r := f.read(ctx, row.report)
					<-turns
					sendTo(ctx, readings, r)
				})
			}
		}
	}
}

// sendTo sends a value unless ctx ends before.
func sendTo[T any](ctx context.Context, to chan<- T, v T) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}

// list adds rows that are new and removes those that are gone.
func (f *feed) list(rows map[string]*feedRow, l listing) {
	for name, r := range l.rows {
		if rows[name] == nil {
			rows[name] = &feedRow{report: r}
		}
	}
	for name := range rows {
		if _, exists := l.rows[name]; !exists && l.complete {
			delete(rows, name)
			f.page.Remove(name)
		}
	}
}

// read reads a row anew.
func (f *feed) read(ctx context.Context, r report) report {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	if g := r.group; g != nil {
		r.group = &groupReport{listed: g.listed, Status: shard.Status{Group: g.Group}}
		r.readGroup(ctx, f.quorum)
		return r
	}
	name := r.Election
	if el, err := f.quorum.Election(name); err != nil { // anyone who may write to Redis can make a key with an invalid name
		r.StatusErr = err
	} else {
		r.Report = doctor.Read(ctx, el, doctor.RecentTerms)
	}
	r.Election = name
	return r
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
	groups := map[string]bool{} // the names that are groups: when its members are gone, a group still is one
	for ctx.Err() == nil {
		sendTo(ctx, listings, f.search(ctx, groups))
		sleep(ctx, listEvery)
	}
}

func (f *feed) search(ctx context.Context, groups map[string]bool) listing {
	l := listing{rows: map[string]report{}, complete: true}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	election := func(name string) {
		var r report
		r.Election = name
		l.rows[name] = r
	}
	for _, name := range f.names {
		if groups[name] = groups[name] || namesGroup(ctx, f.quorum, name); groups[name] {
			l.rows[name+"/*"] = listedGroup{name: name}.row()
		} else {
			election(name)
		}
	}
	if len(f.names) > 0 {
		return l
	}
	names, err := f.quorum.Elections(ctx)
	others, folded, left := fold(names, maxGroups)
	shown := others[:min(maxRows, len(others))]
	for _, name := range shown {
		election(name)
	}
	for _, g := range folded {
		l.rows[g.name+"/*"] = g.row()
	}
	site := &console.Site{Hidden: len(others) - len(shown) + left}
	if err != nil {
		site.Problem = err.Error()
	}
	f.listed.Store(site)
	l.complete = err == nil
	return l
}

// followSite shows every second which nodes answer, by the status of an election that need not exist.
func (f *feed) followSite(ctx context.Context) {
	el, err := f.quorum.Election(append(f.names[:len(f.names):len(f.names)], "mandate-console")[0])
	if err != nil { // impossible with these names
		return
	}
	known := time.Time{}
	for ; ctx.Err() == nil; sleep(ctx, rowEvery) {
		st, _ := el.Status(ctx) // it has the errors of the nodes
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

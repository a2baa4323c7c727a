package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/shard"
)

const consoleHelp = `Serve one live page with every election of the prefix in a table, those with
problems first, with what is wrong and the command to type next. A row opens to
the candidates and their health, and the latest terms with the reason of each
end; the page's address holds the open ones (#orders). A group of shards is one
row, which opens to its members.

The page is read-only. Redis is queried only while it is open, whatever the
number of viewers: at most 50 elections a second.

Anyone who can reach the port can read the page, unless --token-file names a
token; the default is the loopback interface. GET /healthz is for probes.
A proxy may serve it below a path, which it must strip, and must not buffer
/api/live.`

func consoleCommand(c *connection) *cobra.Command {
	var addr, tokenFile string
	var hosts []string
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve a live page with all elections",
		Long:  consoleHelp,
		Example: `  mandate console
  mandate console --token-file /run/secrets/console
  ssh -L 7481:127.0.0.1:7481 HOST      then open http://127.0.0.1:7481`,
		Args: noNames(": it shows all elections of the prefix"),
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&addr, "http", "127.0.0.1:7481", "`ADDR` to listen on; without a host it is the loopback interface")
	f.StringArrayVar(&hosts, "host", nil, "host `NAME` to answer under besides localhost and IP addresses; may be repeated")
	f.StringVar(&tokenFile, "token-file", "", "`FILE` with a token that the page needs, as the password; any user name")
	token := ""
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		c.checkAddress(cmd.Context(), "--http", addr)
		if tokenFile != "" {
			token = c.secret("--token-file", tokenFile)
		}
		return c.open(anyElection)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		l, err := c.listenOn(cmd.Context(), addr)
		if err != nil {
			return err
		}
		if at, ok := l.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && token == "" {
			c.log.Warn("page is readable by anyone who can reach this address", "address", l.Addr().String())
		}
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		return serveConsole(ctx, c, l, console.Config{Hosts: hosts, Token: token, Logger: c.log})
	}
	return cmd
}

// serveConsole serves the page with all elections of the quorum, until ctx ends.
func serveConsole(ctx context.Context, c *connection, l net.Listener, cfg console.Config) error {
	fmt.Fprintf(c.stdout, "console: http://%s\n", l.Addr())
	ctx, cancel := context.WithCancel(ctx)
	page := console.New(cfg)
	feed := &feed{quorum: c.quorum, nobody: c.election, flags: c.given, page: page}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { feed.run(ctx) })
	return page.Serve(ctx, l)
}

// Each row is read at once, and then once a second, or of more than rowsAtATime so many each second.
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
	nobody *elector.Election // its status shows the nodes
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
	wg.Go(func() {
		for ctx.Err() == nil {
			l := f.search(ctx)
			sendTo(ctx, listings, l)
			every := listEvery
			if !l.complete { // the error would stay beside nodes that answer again
				every = rowEvery
			}
			sleep(ctx, every)
		}
	})
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
		for n < len(queue) && !f.page.Shows(queue[n].Election) { // a new page shows all at once
			n++
		}
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

func (f *feed) search(ctx context.Context) listing {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
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
	known := time.Time{}
	for ; ctx.Err() == nil; sleep(ctx, rowEvery) {
		st, _ := f.nobody.Status(ctx) // it has the errors of the nodes
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

func (r *report) row() console.Row {
	p := r.problem()
	row := console.Row{Election: r.Election, State: r.state(), Rank: r.rank(p), Problem: sentence(p), Next: p.Advice}
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
func (r *report) rank(p doctor.Finding) int {
	switch state := r.state(); {
	case state == stateUnknown:
		return console.RankProblem
	case p.Level == doctor.LevelFail:
		return console.RankUrgent
	case state == stateAbandoned, state == stateFinished:
		return console.RankAbandoned
	case state == statePaused:
		return console.RankPaused
	case p.Level == doctor.LevelWarn:
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

package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/health"
)

func TestHistoryFitsATerminal(t *testing.T) {
	lines := (&output.Printer{Width: 80}).Table(historyTable(history{Terms: []elector.TermRecord{
		{Token: 1795264213744, Candidate: strings.Repeat("x", 40), Reason: elector.ReasonUnhealthy, From: time.Unix(1e9, 0), Lasted: time.Hour, Gap: time.Hour},
	}}, false))
	if !strings.Contains(lines[1], "x..x") {
		t.Errorf("the name is not cut:\n%s", lines)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// The last terms are shown with the pauses since the first of them, and one that lasts whenever it began.
func TestHistoryKeepsAPauseThatLasts(t *testing.T) {
	at := time.Unix(1e9, 0)
	all := history{
		Pauses: []elector.PauseRecord{
			{By: "a", From: at.Add(time.Minute), Until: at.Add(2 * time.Minute)}, {By: "b", From: at.Add(-time.Minute), Until: at.Add(-time.Second)}, {By: "c", From: at.Add(-time.Hour)},
		},
	}
	if all.since(at); len(all.Pauses) != 2 || all.Pauses[0].By != "a" || all.Pauses[1].By != "c" {
		t.Errorf("%+v", all)
	}
}

// A leader whose process answers did not vanish: whoever reads that looks for a machine that died.
func TestHistoryNamesUnreportedEnds(t *testing.T) {
	server := miniredis.RunT(t)
	url := "redis://" + server.Addr()
	q, err := elector.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	e, err := elector.New(q, elector.Config{Election: "orders", ID: "a", Lease: 2 * time.Second, Cooldown: -1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done, terms := make(chan error, 1), make(chan *elector.Term, 9)
	go func() {
		done <- e.Run(ctx, func(ctx context.Context, term *elector.Term) error { terms <- term; <-ctx.Done(); return nil })
	}()
	defer func() { stop(); <-done; _ = q.Close() }()
	history := func() string {
		var o, errs captured
		execute(t.Context(), []string{"history", "orders", "--redis", url}, &o, &errs)
		return o.String() + errs.String()
	}
	first := <-terms
	time.Sleep(100 * time.Millisecond) // the answer to the roll call may take as long, so a term of that age would not be told from one before
	first.Resign()
	(<-terms).Resign()
	<-terms
	err = poll(func() error {
		if out := history(); strings.Count(out, "resigned") != 2 || !strings.Contains(out, "leads") {
			return errors.New(out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := server.Stream("mandate:{orders}:history")
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	for _, entry := range stream[3:] { // of the second term
		if strings.Contains(strings.Join(entry.Values, " "), "resigned") {
			rdb.XDel(t.Context(), "mandate:{orders}:history", entry.ID)
		}
	}
	if out := history(); !strings.Contains(out, "unreported") || !strings.Contains(out, "has not reported how") || strings.Contains(out, "vanished") {
		t.Errorf("a lives:\n%s", out)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	done <- nil
	if out := history(); !strings.Contains(out, "vanished") {
		t.Errorf("a is gone:\n%s", out)
	}
}

// Regression: the first deploy of a service whose probe fails was in no list, because only a
// leader or a pause left a key.
func TestElectionThatNeverHadALeaderIsListed(t *testing.T) {
	url := "redis://" + miniredis.RunT(t).Addr()
	s := shell{t, url}
	broken := health.Func(func(context.Context) error { return errors.New("HTTP 503") })
	_, stop := campaign(t, url, "first-deploy", "worker-a", func(cfg *elector.Config) { cfg.Probe = broken })
	servertest.Eventually(t, time.Minute, "the candidate can be asked, and is known to be unhealthy", func() bool {
		out, _ := s.run(0, "ls")
		return strings.Contains(out, "503")
	})
	s.shows(0, "ls", "first-deploy vacant - - 0/1 -", "HTTP 503")
	s.shows(exitNoLeader, "status first-deploy", "problem 0 of 1 candidates could lead: worker-a: ", "HTTP 503")
	stop()
	s.shows(0, "ls", "first-deploy abandoned - - 0/0 -")
}

// With a node down, too, it is said why there is no history.
func TestHistoryOfAnElectionThatNeverHadALeader(t *testing.T) {
	gone := miniredis.RunT(t)
	urls := "redis://" + miniredis.RunT(t).Addr() + ",redis://" + miniredis.RunT(t).Addr() + ",redis://" + gone.Addr()
	s := shell{t, urls}
	broken := health.Func(func(context.Context) error { return errors.New("HTTP 503") })
	_, stop := campaign(t, urls, "first-deploy", "worker-a", func(cfg *elector.Config) { cfg.Probe = broken })
	defer stop()
	servertest.Eventually(t, time.Minute, "the candidate can be asked", func() bool {
		var out captured
		execute(t.Context(), append([]string{"ls"}, s.nodes()...), &out, &captured{})
		return strings.Contains(out.String(), "first-deploy")
	})
	const never = "no term of first-deploy is recorded: it has never had a leader"
	s.shows(exitNoLeader, "history first-deploy", never, "mandate status first-deploy")
	s.shows(exitNoLeader, "history nosuch", "no history of nosuch: is the name right?")
	gone.Close()
	s.shows(exitNoLeader, "history first-deploy", never)
}

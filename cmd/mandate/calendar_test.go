//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/calendar"
)

// Days of cron on three hosts, whose line is mandate run --once --wait 0s --hold 1m.
func TestCalendarOfRunOnce(t *testing.T) {
	calendar.Test(t, "2026-10-23", 12, 100, func(ctx context.Context, e *elector.Elector, client redis.UniversalClient, jobs []calendar.Job, ran func(string, time.Time)) elector.Work {
		for _, j := range jobs {
			go j.Each(ctx, e, func(tick time.Time) { go onHost(t, e, client, j.Name, tick, ran) })
		}
		return func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil }
	})
}

// onHost is what cron starts on a host.
func onHost(t *testing.T, host *elector.Elector, client redis.UniversalClient, name string, tick time.Time, ran func(string, time.Time)) {
	q, err := elector.NewQuorum(client)
	if err != nil {
		t.Error(err)
		return
	}
	defer q.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	j := &job{once: true, wait: 0, hold: time.Minute, lease: 30 * time.Second, stop: stop, log: host.Logger()}
	a := &app{log: host.Logger()}
	a.elector, err = elector.New(q, elector.Config{
		Election: strings.NewReplacer(" ", "-", "/", "-").Replace(name), ID: fmt.Sprint(host.ID(), "-", tick.Unix()), Lease: j.lease, Logger: host.Logger(),
	})
	if err != nil {
		t.Error(err)
		return
	}
	err = a.campaign(ctx, j, func(ctx context.Context, _ *elector.Term) error {
		if !j.runsHere() {
			return nil
		}
		ran(name, tick)
		return j.exited(ctx, j.log, time.Now(), 0, "")
	})
	j.decided.Store(givenUp)
	if exit := (*exitError)(nil); errors.As(err, &exit) && exit.code == exitOtherLeads && exit.quiet {
		return
	}
	if err != nil { // cron mails it
		host.Logger().Warn("tick may not run: no answer before the term ended", "job", name, "tick", tick, "error", err)
	}
}

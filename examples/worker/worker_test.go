package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/health"
)

// The worker in virtual time: what does it do when it loses its lease?
func TestWorkerStopsWhenItLosesItsLease(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		var log servertest.Logbook
		logger := log.Logger()
		w := &worker{log: logger, beat: health.NewHeartbeat(5 * time.Second)}
		e, err := elector.New(r.Quorum("a"), elector.Config{Election: "jobs", WorkProbe: w.beat, Logger: logger})
		servertest.Must(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx, w.lead) }()

		r.Lead(e)
		term := e.Term()
		electortest.Advance(time.Minute)
		if n := len(log.Lines("msg=working")); n < 60 || n > 61 || !term.Valid() {
			t.Errorf("%d jobs in a minute, leads: %v", n, term.Valid())
		}
		r.TakeLease(e)
		electortest.Advance(time.Second)
		before := len(log.Lines("msg=working"))
		electortest.Advance(5 * time.Second)
		if n := len(log.Lines("msg=working")) - before; n != 0 {
			t.Errorf("%d jobs without a lease", n)
		}
		var ended *elector.Ended
		if !errors.As(term.Err(), &ended) || ended.Reason != elector.ReasonLost {
			t.Errorf("the term ended with %v", term.Err())
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

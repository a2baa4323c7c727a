package elector_test

import (
	"context"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// What finishes after a planned end may go on while the lease is kept, and not beyond the release.
func TestKept(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		e, err := elector.New(r.Quorum("a"), elector.Config{Election: "e", ID: "a", Lease: 10 * time.Second, DrainTimeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		term, err := e.Campaign(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if term.Kept() != term.Left() || term.Kept() <= 0 {
			t.Errorf("a term that holds: %v is kept, %v left", term.Kept(), term.Left())
		}
		term.Resign()
		<-term.Done()
		time.Sleep(15 * time.Second)
		if term.Left() != 0 || term.Kept() <= 0 {
			t.Errorf("while the work stops: %v is kept, %v left", term.Kept(), term.Left())
		}
		if err := term.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if term.Kept() != 0 || (*elector.Term)(nil).Kept() != 0 {
			t.Errorf("after the release %v is kept", term.Kept())
		}
	})
}

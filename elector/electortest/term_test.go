package electortest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// A test of somebody's work function needs a term of a known token whose end it decides.
func TestNewTermIsValidUntilItsEnd(t *testing.T) {
	term, end := electortest.NewTerm(t, 7)
	if !term.Valid() || term.Token() != 7 || term.Left() <= 0 || term.Err() != nil {
		t.Fatalf("valid: %v, token %d, left %v, %v", term.Valid(), term.Token(), term.Left(), term.Err())
	}
	end(elector.ReasonLost)
	<-term.Done()
	var ended *elector.Ended
	if !errors.As(context.Cause(term.Context()), &ended) || ended.Reason != elector.ReasonLost || term.Valid() || term.Left() != 0 {
		t.Errorf("valid: %v, left %v, ended with %v", term.Valid(), term.Left(), term.Err())
	}
}

// Work that gives its term up, or has stopped, must see that as under an election.
func TestNewTermIsResignedAndClosed(t *testing.T) {
	resigned, _ := electortest.NewTerm(t, 1)
	resigned.Resign()
	<-resigned.Done()
	closed, _ := electortest.NewTerm(t, 2)
	if err := closed.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, term := range []*elector.Term{resigned, closed} {
		var ended *elector.Ended
		if !errors.As(term.Err(), &ended) || ended.Reason != elector.ReasonResigned {
			t.Errorf("term %d ended with %v", term.Token(), term.Err())
		}
	}
}

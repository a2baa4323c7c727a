package elector

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

var errGateBusy = errors.New("this gate serves another term already: use one gate for each Elector")

// Gate lets code that is called from elsewhere (a scheduler's job, an HTTP handler,
// a rebalance callback) work under a term: Do runs a function only while this
// candidate leads, and the lock is released only after every such function has
// returned. Checking IsLeader before the work guarantees neither: the term may end, and
// another process may lead, between the check and the end of the work.
//
// The zero Gate is ready. Give its Work to Run; one Gate serves one Elector. Safe
// for concurrent use.
type Gate struct {
	serving atomic.Bool // Work has not returned
	mu      sync.Mutex
	term    *Term          // set while Work is running and the term has not ended
	running sync.WaitGroup // the functions that Do is running; grows only while term is set
}

// Work is the Work of an Elector whose work is done through Do. It returns when the
// term has ended and every function of Do has returned.
func (g *Gate) Work(ctx context.Context, term *Term) error {
	if !g.serving.CompareAndSwap(false, true) {
		return errGateBusy
	}
	defer g.serving.Store(false)
	g.serve(term)
	<-ctx.Done()
	g.serve(nil) // no function starts from here on
	g.running.Wait()
	return nil
}

func (g *Gate) serve(term *Term) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.term = term
}

// Do runs f under the current term and returns f's error, or ErrNotLeader, at once
// and without running f, when this candidate does not lead. It does no I/O.
//
// f's context carries ctx's values. It ends with ctx, and with the term: then
// context.Cause gives the term's *Ended, and f must stop within StopMargin, like any
// work. The lock is not released before f has returned, so an f that does not
// return delays the handover until the lease has lapsed.
//
// A panic of f reaches the caller, who may recover from it, as HTTP servers and most
// schedulers do: the term then continues. If nothing recovers it, the process ends as if it
// had been killed: the lease lapses, and the history records "vanished". Where that matters,
// f should recover and return an error.
func (g *Gate) Do(ctx context.Context, f func(ctx context.Context, term *Term) error) error {
	term := g.enter()
	if term == nil {
		return ErrNotLeader
	}
	defer g.running.Done() // also when f panics: the caller gets the panic

	// Elector.Resign, called by f, must not wait for f.
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, termKey{}, term))
	defer cancel(nil)
	unlink := context.AfterFunc(term.Context(), func() { cancel(term.Err()) })
	defer unlink()
	return f(ctx, term)
}

// TermOf returns the term to which a context belongs: that of a Work, of a function of Gate.Do, of
// Term.Context, or of a request that electorhttp.Forward serves. Nil: it belongs to none.
func TermOf(ctx context.Context) *Term {
	t, _ := ctx.Value(termKey{}).(*Term)
	return t
}

// enter returns the current term, with one more function that runs under it; nil: this candidate does not lead.
func (g *Gate) enter() *Term {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.term.Valid() {
		return nil
	}
	g.running.Add(1)
	return g.term
}

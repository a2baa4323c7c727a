package testcluster

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// Lease is that of the candidates.
const Lease = 10 * time.Second

// Logbook collects what a candidate logs.
type Logbook = servertest.Logbook

// Candidate is an Elector with work that stops when its context ends, and records what
// happens to it.
type Candidate struct {
	*elector.Elector
	T      testing.TB
	Q      *elector.Quorum
	Log    *Logbook
	Terms  chan *elector.Term // each as its work starts
	Stop   context.CancelFunc // ends Run
	Done   chan struct{}      // closed after Run
	Result error              // of Run, after Done
}

// NewCandidate makes one that does not run yet.
func NewCandidate(t testing.TB, q *elector.Quorum, id string, change ...func(*elector.Config)) *Candidate {
	t.Helper()
	c := &Candidate{T: t, Q: q, Log: &Logbook{}, Terms: make(chan *elector.Term, 1000), Done: make(chan struct{})}
	cfg := elector.Config{Election: "orders", ID: id, Lease: Lease, Logger: c.Log.Logger()}
	for _, f := range change {
		f(&cfg)
	}
	e, err := elector.New(q, cfg)
	servertest.Must(t, err)
	c.Elector = e
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what %s logged:\n%s", id, c.Log)
		}
	})
	return c
}

// Begin starts Run, until the end of the test; work nil waits for the end of its context.
func (c *Candidate) Begin(work elector.Work) *Candidate { return c.BeginIn(context.Background(), work) }

// BeginIn is Begin under a context, which may bring a clock that lies.
func (c *Candidate) BeginIn(ctx context.Context, work elector.Work) *Candidate {
	ctx, cancel := context.WithCancel(ctx)
	c.Stop = cancel
	go func() {
		defer close(c.Done)
		c.Result = c.Run(ctx, func(ctx context.Context, term *elector.Term) error {
			c.Terms <- term
			if work != nil {
				return work(ctx, term)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	c.T.Cleanup(func() { cancel(); <-c.Done })
	return c
}

// Elected waits for the next term.
func (c *Candidate) Elected(within time.Duration) *elector.Term {
	c.T.Helper()
	select {
	case term := <-c.Terms:
		return term
	case <-c.Done:
	case <-time.After(within):
	}
	switch term, _, came := Await(c.Terms, 0); {
	case came:
		return term
	case !c.Running():
		c.T.Fatalf("%s: Run ended: %v", c.ID(), c.Result)
	default:
		c.T.Fatalf("%s was not elected within %v", c.ID(), within)
	}
	return nil
}

// Running reports whether Run has not ended yet.
func (c *Candidate) Running() bool {
	_, _, ended := Await(c.Done, 0)
	return !ended
}

// Ended waits for Run's end.
func (c *Candidate) Ended(within time.Duration) error {
	c.T.Helper()
	if _, _, came := Await(c.Done, within); !came {
		c.T.Fatalf("%s: Run did not end within %v; Check: %v", c.ID(), within, c.Check())
	}
	return c.Result
}

// Shutdown ends Run and wants it to end well.
func (c *Candidate) Shutdown() {
	c.T.Helper()
	c.Stop()
	if err := c.Ended(time.Minute); err != nil {
		c.T.Fatalf("%s: Run returned %v", c.ID(), err)
	}
}

// Quiet fails when a term begins within d.
func (c *Candidate) Quiet(d time.Duration) {
	c.T.Helper()
	if term, _, came := Await(c.Terms, d); came {
		c.T.Fatalf("%s was elected with token %d", c.ID(), term.Token())
	}
}

// First waits until one of the candidates leads.
func First(t testing.TB, within time.Duration, cs ...*Candidate) (*Candidate, *elector.Term) {
	t.Helper()
	for limit := time.Now().Add(within); ; time.Sleep(Tick) {
		late := time.Now().After(limit) // before the look: the last one is after the limit
		for _, c := range cs {
			if term, _, came := Await(c.Terms, 0); came {
				return c, term
			}
		}
		if late {
			t.Fatalf("no candidate was elected within %v", within)
		}
	}
}

// Others are all candidates but one.
func Others(all []*Candidate, c *Candidate) []*Candidate {
	return slices.DeleteFunc(slices.Clone(all), func(o *Candidate) bool { return o == c })
}

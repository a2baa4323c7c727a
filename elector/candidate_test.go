package elector_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest/servertest"
)

// logbook collects log lines.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logbook) lines(with ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for line := range strings.Lines(l.buf.String()) {
		ok := true
		for _, w := range with {
			ok = ok && strings.Contains(line, w)
		}
		if ok {
			all = append(all, line)
		}
	}
	return all
}

func (l *logbook) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// candidate is an Elector that takes part, with work that stops when it is told.
type candidate struct {
	*elector.Elector
	t      testing.TB
	q      *elector.Quorum
	log    *logbook
	terms  chan *elector.Term // each as its work starts
	stop   context.CancelFunc
	done   chan struct{}
	result error
}

const shortLease = 10 * time.Second

func makeCandidate(t testing.TB, q *elector.Quorum, id string, change ...func(*elector.Config)) *candidate {
	t.Helper()
	c := &candidate{t: t, q: q, log: &logbook{}, terms: make(chan *elector.Term, 1000), done: make(chan struct{})}
	cfg := elector.Config{Election: "orders", ID: id, Lease: shortLease, Logger: c.log.logger()}
	for _, f := range change {
		f(&cfg)
	}
	e, err := elector.New(q, cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.Elector = e
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("what %s logged:\n%s", id, strings.Join(c.log.lines(), ""))
		}
	})
	return c
}

// run starts Run; work nil means: until told to stop.
func (c *candidate) run(work elector.Work) *candidate { return c.runIn(context.Background(), work) }

// runIn is run under a context, which may bring a clock that lies.
func (c *candidate) runIn(ctx context.Context, work elector.Work) *candidate {
	ctx, cancel := context.WithCancel(ctx)
	c.stop = cancel
	go func() {
		defer close(c.done)
		c.result = c.Run(ctx, func(ctx context.Context, term *elector.Term) error {
			c.terms <- term
			if work != nil {
				return work(ctx, term)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	c.t.Cleanup(func() { cancel(); <-c.done })
	return c
}

// start makes a candidate with connections of its own and runs it.
func (c *cluster) start(id string, change ...func(*elector.Config)) *candidate {
	c.t.Helper()
	return makeCandidate(c.t, c.quorum(id), id, change...).run(nil)
}

// elected waits for the next term.
func (c *candidate) elected(within time.Duration) *elector.Term {
	c.t.Helper()
	select {
	case term := <-c.terms:
		return term
	case <-c.done:
	case <-time.After(within):
	}
	switch term, _, came := await(c.terms, 0); {
	case came:
		return term
	case closed(c.done):
		c.t.Fatalf("%s: Run ended: %v", c.ID(), c.result)
	default:
		c.t.Fatalf("%s was not elected within %v", c.ID(), within)
	}
	return nil
}

// await reads from a channel, at the latest when the time is up. What has come by then
// counts: on a starved machine both are ready, and a select takes any of them.
func await[T any](from <-chan T, within time.Duration) (v T, open, came bool) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case v, open = <-from:
		return v, open, true
	case <-timer.C:
	}
	select {
	case v, open = <-from:
		return v, open, true
	default:
		return v, false, false
	}
}

// ended waits for Run's end.
func (c *candidate) ended(within time.Duration) error {
	c.t.Helper()
	if _, _, came := await(c.done, within); !came {
		c.t.Fatalf("%s: Run did not end within %v", c.ID(), within)
	}
	return c.result
}

// shutdown ends Run and wants it to end well.
func (c *candidate) shutdown() {
	c.t.Helper()
	c.stop()
	if err := c.ended(time.Minute); err != nil {
		c.t.Fatalf("%s: Run returned %v", c.ID(), err)
	}
}

// quiet fails when a term begins within d.
func (c *candidate) quiet(d time.Duration) {
	c.t.Helper()
	select {
	case term := <-c.terms:
		c.t.Fatalf("%s was elected with token %d", c.ID(), term.Token())
	case <-time.After(d):
	}
}

// reasonOf waits for a term's end and returns why.
func reasonOf(t testing.TB, term *elector.Term, within time.Duration) *elector.Ended {
	t.Helper()
	if _, _, came := await(term.Done(), within+tick); !came {
		t.Fatalf("the term did not end within %v", within)
	}
	var ended *elector.Ended
	if !errors.As(term.Err(), &ended) {
		t.Fatalf("Err is %v", term.Err())
	}
	return ended
}

func wantReason(t testing.TB, term *elector.Term, within time.Duration, want elector.Reason) *elector.Ended {
	t.Helper()
	ended := reasonOf(t, term, within)
	if ended.Reason != want {
		t.Fatalf("the term ended with %q (%v), want %q", ended.Reason, ended, want)
	}
	return ended
}

// first waits until one of the candidates leads.
func first(t testing.TB, within time.Duration, cs ...*candidate) (*candidate, *elector.Term) {
	t.Helper()
	for limit := time.Now().Add(within); ; time.Sleep(tick) {
		late := time.Now().After(limit) // before the look: the last one is after the limit
		for _, c := range cs {
			select {
			case term := <-c.terms:
				return c, term
			default:
			}
		}
		if late {
			t.Fatalf("nobody was elected within %v", within)
		}
	}
}

// tick is how exactly tests look at what happens.
const tick = 100 * time.Microsecond

// eventually waits until ok holds.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(within); ; time.Sleep(tick) {
		late := time.Now().After(limit) // before the look: the last one is after the limit
		if ok() {
			return
		}
		if late {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

func others(all []*candidate, c *candidate) []*candidate {
	var rest []*candidate
	for _, o := range all {
		if o != c {
			rest = append(rest, o)
		}
	}
	return rest
}

// endedOrElected is Run's error, or one that says that a term began.
func (c *candidate) endedOrElected(within time.Duration) error {
	c.t.Helper()
	select {
	case <-c.done:
		return c.result
	case term := <-c.terms:
		return fmt.Errorf("elected with token %d", term.Token())
	case <-time.After(within):
		return errors.New("neither ended nor elected")
	}
}

// realQuorum has connections of its own.
func realQuorum(t testing.TB, servers ...*servertest.Server) *elector.Quorum {
	t.Helper()
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	q, err := elector.Open(urls...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// electionOf is the election of that name, for a test that knows the name to be right.
func electionOf(q *elector.Quorum, name string) *elector.Election {
	el, err := q.Election(name)
	if err != nil {
		panic(err)
	}
	return el
}

// observe hands what a loop over Observe gets to a channel, which closes after ctx has
// ended.
func observe(ctx context.Context, el *elector.Election) <-chan elector.Event {
	events := make(chan elector.Event)
	go func() {
		defer close(events)
		for ev := range el.Observe(ctx) {
			select {
			case events <- ev:
			case <-ctx.Done():
			}
		}
	}()
	return events
}

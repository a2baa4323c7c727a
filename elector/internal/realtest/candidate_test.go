//go:build unix

package realtest_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest/servertest"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	redis.SetLogger(silence{})
	// These tests wait more than they work: as many at once as four cores would run.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testleak.VerifyTestMain(m)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// The lease of most tests, and what a small and busy machine may take on top of
// what is promised. Both are absolute: the ratios are measured elsewhere.
const (
	lease = 2 * time.Second
	slack = 4 * time.Second
)

const (
	lockKey     = "mandate:{orders}:lock"
	wakeChannel = "mandate:{orders}:wake"
)

// electorate is all candidates of one election. It holds what must be so
// whatever happens to the servers: tokens grow, and never two valid terms.
type electorate struct {
	t     testing.TB
	lease time.Duration

	mu       sync.Mutex
	all      []*candidate
	highest  uint64
	terms    []*elector.Term
	overlaps int
	forgives bool // the deployment does not promise "never two": see README
}

func newElectorate(t testing.TB) *electorate {
	el := &electorate{t: t, lease: lease}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				el.look()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		if el.overlaps > 0 && !el.forgives {
			t.Errorf("two valid terms at once, seen %d times", el.overlaps)
		}
	})
	return el
}

// look counts pairs of valid terms. The first is asked again after the second,
// so that a hand-over in between is not taken for an overlap.
func (el *electorate) look() {
	el.mu.Lock()
	defer el.mu.Unlock()
	for i, a := range el.all {
		for _, b := range el.all[i+1:] {
			if one, two := a.Term(), b.Term(); one != nil && two != nil && one.Valid() {
				el.overlaps++
			}
		}
	}
}

func (el *electorate) begun(term *elector.Term) {
	el.mu.Lock()
	defer el.mu.Unlock()
	if term.Token() <= el.highest {
		el.t.Errorf("token %d after %d", term.Token(), el.highest)
	}
	el.highest = max(el.highest, term.Token())
	el.terms = append(el.terms, term)
}

// candidate takes part from join to the test's end, with work that stops when
// it is told to.
type candidate struct {
	*elector.Elector
	t      testing.TB
	q      *elector.Quorum
	log    *logbook
	stop   context.CancelFunc
	done   chan struct{}
	result error // of Run, after done
}

func (el *electorate) join(id string, q *elector.Quorum) *candidate {
	el.t.Helper()
	c := &candidate{t: el.t, q: q, log: &logbook{}, done: make(chan struct{})}
	var err error
	c.Elector, err = elector.New(q, elector.Config{Election: "orders", ID: id, Lease: el.lease, Logger: c.log.logger()})
	if err != nil {
		el.t.Fatal(err)
	}
	el.t.Cleanup(func() {
		if el.t.Failed() {
			el.t.Logf("what %s logged:\n%s", id, strings.Join(c.log.lines(), ""))
		}
	})
	var ctx context.Context
	ctx, c.stop = context.WithCancel(context.Background())
	go func() {
		defer close(c.done)
		c.result = c.Run(ctx, func(ctx context.Context, term *elector.Term) error {
			el.begun(term)
			<-ctx.Done()
			return nil
		})
	}()
	el.t.Cleanup(func() { c.stop(); <-c.done })
	el.mu.Lock()
	el.all = append(el.all, c)
	el.mu.Unlock()
	return c
}

// shutdown ends Run, and wants it to end well.
func (c *candidate) shutdown() {
	c.t.Helper()
	c.stop()
	if err := c.ended(slack); err != nil {
		c.t.Fatalf("%s: Run returned %v", c.ID(), err)
	}
}

// ended waits for Run's end.
func (c *candidate) ended(within time.Duration) error {
	c.t.Helper()
	if !closes(c.done, within) {
		c.t.Fatalf("%s: Run did not end within %v; Check: %v", c.ID(), within, c.Check())
	}
	return c.result
}

// closes waits for a channel to be closed. When it is as the time is up, it counts: on a
// starved machine both are ready, and a select takes any of them.
func closes(ch <-chan struct{}, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-timer.C:
	}
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (c *candidate) running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// next waits for the first valid term with a token above after.
func (el *electorate) next(after uint64, within time.Duration) (*candidate, *elector.Term) {
	el.t.Helper()
	var leader *candidate
	var term *elector.Term
	servertest.Eventually(el.t, within, "somebody leads with a new token", func() bool {
		el.mu.Lock()
		defer el.mu.Unlock()
		for _, c := range el.all {
			if t := c.Term(); t != nil && t.Token() > after {
				leader, term = c, t
				return true
			}
		}
		return false
	})
	return leader, term
}

// survives wants a term to be valid at every look for d.
func (el *electorate) survives(term *elector.Term, d time.Duration) {
	el.t.Helper()
	for limit := time.Now().Add(d); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if !term.Valid() {
			el.t.Fatalf("the term was lost: %v", term.Err())
		}
	}
}

// ends wants a term to end within d, for one of the reasons.
func (el *electorate) ends(term *elector.Term, within time.Duration, reasons ...elector.Reason) *elector.Ended {
	el.t.Helper()
	if !closes(term.Done(), within) {
		el.t.Fatalf("the term did not end within %v", within)
	}
	var ended *elector.Ended
	if !errors.As(term.Err(), &ended) {
		el.t.Fatalf("the term ended with %v", term.Err())
	}
	for _, r := range reasons {
		if ended.Reason == r {
			return ended
		}
	}
	el.t.Fatalf("the term ended with %q (%v), want one of %q", ended.Reason, ended, reasons)
	return nil
}

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

// lines are those that hold all the words.
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

// open makes connections of a candidate's own.
func open(t testing.TB, urls ...string) *elector.Quorum {
	t.Helper()
	q, err := elector.Open(urls...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	return q
}

func urlsOf(servers []*servertest.Server) []string {
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	return urls
}

// contested starts n servers with AOF and two candidates, and returns when one
// of them leads and the other has seen that.
func contested(t testing.TB, n int, args ...string) ([]*servertest.Server, *electorate, *elector.Term) {
	t.Helper()
	servers := servertest.RedisN(t, n, append(servertest.AOF, args...)...)
	el := newElectorate(t)
	el.join("a", open(t, urlsOf(servers)...))
	_, term := el.next(0, el.lease+slack)
	el.join("b", open(t, urlsOf(servers)...))
	follows(t, servers[0])
	return servers, el, term
}

// follows waits until a candidate waits for the leader's end: it has been told
// by a refused claim who leads.
func follows(t testing.TB, s *servertest.Server) {
	t.Helper()
	op := s.Client(t)
	servertest.Eventually(t, lease+slack, "somebody follows", func() bool {
		return op.PubSubNumSub(t.Context(), wakeChannel).Val()[wakeChannel] > 0
	})
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

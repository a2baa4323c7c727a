package elector_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// unreachable is an election on three nodes of which none can be reached.
func unreachable(t *testing.T) (*elector.Quorum, *elector.Election) {
	t.Helper()
	q := open(t, "redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3")
	el, err := q.Election("orders")
	must(t, err)
	return q, el
}

// queries are the calls that ask the nodes or tell them something.
func queries(q *elector.Quorum, el *elector.Election) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Status":     func(ctx context.Context) error { _, err := el.Status(ctx); return err },
		"Leader":     func(ctx context.Context) error { _, err := el.Leader(ctx); return err },
		"History":    func(ctx context.Context) error { _, err := el.History(ctx, 3); return err },
		"Candidates": func(ctx context.Context) error { _, err := el.Candidates(ctx); return err },
		"StepDown":   func(ctx context.Context) error { _, _, err := el.StepDown(ctx, ""); return err },
		"Transfer":   func(ctx context.Context) error { _, _, err := el.Transfer(ctx, "b"); return err },
		"Pause":      func(ctx context.Context) error { return el.Pause(ctx, 0, "") },
		"Resume":     func(ctx context.Context) error { return el.Resume(ctx) },
		"Elections":  func(ctx context.Context) error { _, err := q.Elections(ctx); return err },
	}
}

// A program must learn which node failed, and why, without reading sentences.
func TestErrorsNameTheNodesThatFailed(t *testing.T) {
	q, el := unreachable(t)
	for name, do := range queries(q, el) {
		t.Run(name, func(t *testing.T) {
			err := do(t.Context())
			var node *elector.NodeError
			if !errors.As(err, &node) || node.Node != "127.0.0.1:1" || node.Problem() == "" || node.Err == nil {
				t.Fatalf("%v holds the node error %+v", err, node)
			}
			if !errors.Is(err, elector.ErrUnreachable) || !strings.HasSuffix(err.Error(), ": 127.0.0.1:1, 127.0.0.1:2, 127.0.0.1:3: connect: connection refused") {
				t.Errorf("does not name each node, and their common problem once: %v", err)
			}
			if strings.Contains(node.Problem(), node.Node) && !strings.Contains(node.Problem(), "dial tcp") {
				t.Errorf("the problem %q names the node again", node.Problem())
			}
		})
	}
}

// A sentinel that doesn't know the master answers nil, as does a Redis without the key: that is no election
// without a leader.
func TestUnknownMasterIsNotAnEmptyElection(t *testing.T) {
	sentinel := fakeServer(t, func(command string) string {
		if strings.EqualFold(command, "sentinel") {
			return "*-1\r\n"
		}
		return "-ERR unknown command\r\n"
	})
	opened, err := elector.Open("redis+sentinel://" + sentinel + "?master_name=mymaster")
	must(t, err)
	made, err := elector.NewQuorum(redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: []string{sentinel}}))
	must(t, err)
	for named, q := range map[string]*elector.Quorum{`the sentinels know no master named "mymaster"`: opened, "the sentinels know no master named so": made} {
		defer q.Close()
		el, err := q.Election("orders")
		must(t, err)
		for name, do := range queries(q, el) {
			if err := do(t.Context()); !errors.Is(err, elector.ErrUnreachable) || !strings.Contains(err.Error(), named) || !strings.Contains(err.Error(), "?master_name=") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if st, err := el.Status(t.Context()); err == nil || st.Nodes[0].Reachable {
			t.Errorf("%+v, %v", st, err)
		}
	}
}

// fakeServer answers each command, and returns its address.
func fakeServer(t *testing.T, answer func(command string) string) string {
	t.Helper()
	return servertest.Listen(t, func(c net.Conn) {
		for in := bufio.NewScanner(c); in.Scan(); { // *N, then for each word its length and the word
			var words int
			_, _ = fmt.Sscanf(in.Text(), "*%d", &words)
			command := ""
			for i := range 2 * words {
				if in.Scan(); i == 1 {
					command = in.Text()
				}
			}
			_, _ = io.WriteString(c, answer(command))
		}
	})
}

// A closed quorum must be told from nodes that are away: nothing helps but another one.
func TestClosedQuorumIsDistinguished(t *testing.T) {
	q, el := unreachable(t)
	e, err := elector.New(q, elector.Config{Election: "orders", Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	must(t, q.Close())
	nothing := func(context.Context, *elector.Term) error { return nil }
	calls := queries(q, el)
	calls["Run"] = func(ctx context.Context) error { return e.Run(ctx, nothing) }
	calls["Campaign"] = func(ctx context.Context) error { _, err := e.Campaign(ctx); return err }
	for name, do := range calls {
		if err := do(t.Context()); !strings.Contains(fmt.Sprint(err), "the quorum is closed") {
			t.Errorf("%s on a closed quorum: %v", name, err)
		}
	}
	for ev := range el.Observe(t.Context()) {
		t.Errorf("observed on a closed quorum: %+v", ev)
	}
}

// Closing the quorum under a leader must end the term, and say why.
func TestClosingTheQuorumEndsTheTerm(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		q := c.Quorum("a")
		a := makeCandidate(t, q, "a").Begin(nil)
		term := a.Elected(3 * shortLease)
		if err := q.Close(); err != nil || c.Locks() != 0 {
			t.Fatalf("%v, and %d locks are left", err, c.Locks())
		}
		wantReason(t, term, time.Second, elector.ReasonShutdown)
		if err := term.Err(); !strings.Contains(fmt.Sprint(err), "the quorum is closed") {
			t.Errorf("the term ended with %v", err)
		}
		if err := a.Ended(time.Second); !errors.Is(err, elector.ErrClosed) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// Close does not wait for long for work that does not stop. Nothing is sent afterwards: Run returns with the
// work, and says that the lock was not released.
func TestCloseDoesNotWaitForTheWork(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		q := c.Quorum("a")
		a := makeCandidate(t, q, "a").Begin(stopsAfter(4 * time.Second))
		a.Elected(3 * shortLease)
		began := time.Now()
		_ = q.Close()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("Close took %v", took)
		}
		if err := a.Ended(3 * time.Second); !errors.Is(err, elector.ErrClosed) || !errors.Is(err, elector.ErrNotReleased) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// A caller without a term must not crash for asking one.
func TestNilTermIsOfNoLeader(t *testing.T) {
	for name, term := range map[string]*elector.Term{"nil": nil, "zero": {}} {
		term.Resign()
		if err := term.Close(t.Context()); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
		if term.Valid() || term.Token() != 0 || term.Left() != 0 || !term.Deadline().IsZero() || !term.Since().IsZero() {
			t.Errorf("%s: %v, token %d, left %v, until %v, since %v", name, term.Valid(), term.Token(), term.Left(), term.Deadline(), term.Since())
		}
		<-term.Done()
		if !errors.Is(term.Err(), elector.ErrNotLeader) || !errors.Is(context.Cause(term.Context()), elector.ErrNotLeader) {
			t.Errorf("%s: ended with %v", name, term.Err())
		}
	}
}

// Package supervisor is for a program that starts a process with electors in it, and that knows
// when this process is dead. The program then releases the terms that the process led, so that
// other candidates need not wait for their leases to expire. `mandate supervise` and `mandate run`
// use this package.
//
// A release while the process is still alive can let two candidates lead at the same time. So call
// Release only when the process, and everything that it has started, is known to be gone.
// Otherwise leave the locks to expire with their leases.
package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
)

// Variable is the environment variable of the process that names the pipe on which the process
// reports its terms, as <fd>:<inode>. The Elector removes the variable from the environment, and
// marks the pipe close-on-exec, so that programs started by the process inherit neither.
const Variable = supervised.Variable

// Terms are the terms that a process has reported and not yet released. The zero value has none.
// Safe for concurrent use.
type Terms struct {
	mu      sync.Mutex // of all below
	terms   map[termKey]term
	members map[supervised.Member]bool
}

// term is a term that was reported, and not released.
type term struct {
	supervised.Term

	promised time.Time // other programs may rely on the term until then
}

// termKey identifies a term, except for its attempt: a newer attempt of an incarnation replaces
// the one before.
type termKey struct{ prefix, election, incarnation string }

func keyOf(t *supervised.Term) termKey { return termKey{t.Prefix, t.Election, t.Incarnation} }

// Follow reads the pipe until its end, which comes when no process holds the pipe open for writing
// any more. It skips lines that are not an Elector's.
func (ts *Terms) Follow(pipe io.Reader) error {
	lines := bufio.NewReaderSize(pipe, 16*supervised.MaxLine)
	for long := false; ; {
		line, err := lines.ReadSlice('\n')
		switch {
		case err == nil && !long:
			ts.note(line)
		case err == nil: // the end of an overlong line, which is not an Elector's, is no line of its own
			long = false
		case errors.Is(err, bufio.ErrBufferFull):
			long = true
		case errors.Is(err, io.EOF):
			return nil
		default:
			return err
		}
	}
}

func (ts *Terms) note(line []byte) {
	var m supervised.Message
	if json.Unmarshal(line, &m) != nil {
		return
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.terms == nil {
		ts.terms, ts.members = map[termKey]term{}, map[supervised.Member]bool{}
	}
	switch {
	case m.Elected != nil:
		ts.terms[keyOf(m.Elected)] = term{Term: *m.Elected}
	case m.Released != nil:
		if ts.terms[keyOf(m.Released)].Attempt == m.Released.Attempt {
			delete(ts.terms, keyOf(m.Released))
		}
	case m.Promised != nil:
		ts.promise(*m.Promised)
	case m.Joined != nil:
		ts.members[*m.Joined] = true
	case m.Left != nil:
		delete(ts.members, *m.Left)
	}
}

// promise counts from now, which is later than the process did. A shorter promise does not end a longer one.
func (ts *Terms) promise(p supervised.Promise) {
	until := time.Now().Add(p.For)
	for key, t := range ts.terms {
		if t.Prefix == p.Prefix && t.Election == p.Election && t.Token == p.Token && until.After(t.promised) {
			t.promised = until
			ts.terms[key] = t
		}
	}
}

// Len returns the number of terms.
func (ts *Terms) Len() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.terms)
}

// MaxLease returns the longest lease of the terms: after that time all of them have expired.
func (ts *Terms) MaxLease() (longest time.Duration) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.terms {
		longest = max(longest, t.Lease)
	}
	return longest
}

// Empty reports whether there is nothing to release, neither a term nor a member of a group.
func (ts *Terms) Empty() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.terms)+len(ts.members) == 0
}

// Release releases all terms on the nodes of q, and removes the members from their groups, all
// concurrently. It returns when the result is definite on a majority of the nodes. While they do
// not answer, it tries again, until each term's lease has passed or ctx ends; it makes one attempt
// even if ctx has ended already. The nodes record the end of each term in the history, with detail and the
// reason ReasonCrashed. A lock that
// another candidate holds by now is not changed. A term about which the process has made promises over
// HTTP (valid_for_ms) is released when the last one has lapsed.
//
// The process, and everything that it has started, must be dead.
func (ts *Terms) Release(ctx context.Context, q *elector.Quorum, detail string) (released int, err error) {
	nodes, _ := q.Parts(module.Only{})
	if nodes == nil {
		return 0, errors.New("supervisor: Release: the quorum is nil")
	}
	ts.mu.Lock()
	terms, members := ts.terms, ts.members
	ts.terms, ts.members = nil, nil
	ts.mu.Unlock()
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, t := range terms {
		all.Go(func() {
			held, rerr := release(ctx, nodes, t, detail)
			mu.Lock()
			defer mu.Unlock()
			if rerr != nil {
				errs = append(errs, fmt.Errorf("%s: %w", t.Election, rerr))
			}
			if held {
				released++
			}
		})
	}
	for m := range members {
		store := group.NewStore(nodes, m.Prefix, m.Group, 0, 0, leaveTimeout)
		for node := range nodes.Len() {
			all.Go(func() { _ = store.Leave(ctx, node, m.Incarnation, true) }) // an error is harmless: the member's record expires
		}
	}
	all.Wait()
	return released, errors.Join(errs...)
}

// leaveTimeout bounds a request without which the other members of a group would only notice
// later that a member is dead.
const leaveTimeout = time.Second

// release releases one term; held is false when its lock was not held any more.
func release(ctx context.Context, nodes *nodes.Nodes, t term, detail string) (held bool, err error) {
	if t.Nodes != nodes.Len() {
		return false, fmt.Errorf("its leader counted %d Redis nodes, and the supervisor knows %d: give both the same list", t.Nodes, nodes.Len())
	}
	died := time.Now()
	if !t.promised.IsZero() && !lease.Sleep(ctx, time.Until(t.promised)) {
		return false, fmt.Errorf("other programs rely on it until %v: %w", t.promised.Round(time.Millisecond), ctx.Err())
	}
	v := quorum.NewVoterOf(nodes, quorum.VoterConfig{
		Keys: protocol.KeysOf(t.Prefix, t.Election).In(nodes.Database()), Candidate: t.Candidate, Incarnation: t.Incarnation,
		Advertise: t.Advertise, Lease: t.Lease, CallTimeout: t.CallTimeout,
	}, t.Attempt, t.Token)
	event := protocol.Encode(elector.Event{
		Version: 1, Kind: elector.EventReleased, Election: t.Election, Candidate: t.Candidate, Incarnation: t.Incarnation,
		Advertise: t.Advertise, Token: t.Token, Reason: elector.ReasonCrashed, Detail: protocol.Clip(detail, protocol.MaxDetail), Time: died.Round(0).UTC(),
	})
	r := v.Releasing(t.Token, protocol.Heir{}, event)
	r.Until(ctx, func() time.Duration { return t.Lease - time.Since(died) }, r.Definite)
	switch {
	case r.Definite():
	case ctx.Err() != nil:
		return r.Released(), fmt.Errorf("no majority of the Redis nodes has answered: %w", ctx.Err())
	default:
		return r.Released(), errors.New("no majority of the Redis nodes answered within its lease")
	}
	return r.Released(), nil // not: the lock had expired, or the process had released it and recorded its end itself
}

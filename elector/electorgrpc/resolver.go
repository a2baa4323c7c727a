package electorgrpc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/mandate-dev/mandate/elector"
)

// queryEvery is the minimum time between two queries to Redis that gRPC causes. It is also how long
// there is no leader before Redis is queried for the reason.
const queryEvery = time.Second

// follower gives the leader's address to one client. Observe alone decides who leads: a query only
// decides whether to restart Observe, so the two sources need not be reconciled.
type follower struct {
	election *elector.Election
	cc       resolver.ClientConn
	address  func(string) (string, error)
	end      context.CancelFunc
	done     chan struct{} // closed when run has returned
	woken    chan struct{} // holds one value when Redis is to be queried

	mu      sync.Mutex // of all below; held while cc is given a state, so that states arrive in order
	leader  leader     // zero: none is known
	changes int        // how often leader was set
	placed  bool       // the client has an address
}

// leader is what a client's connection depends on: if any of it changes, the client needs a new state.
type leader struct {
	id         string
	token      uint64
	advertised string
}

func follow(election *elector.Election, cc resolver.ClientConn, address func(string) (string, error)) *follower {
	ctx, end := context.WithCancel(context.Background())
	f := &follower{election: election, cc: cc, address: address, end: end, done: make(chan struct{}), woken: make(chan struct{}, 1)}
	f.explain()
	go f.run(ctx)
	return f
}

// ResolveNow requests a query to Redis: the server to which gRPC could not connect may not lead any
// more. It does not block.
func (f *follower) ResolveNow(resolver.ResolveNowOptions) { f.wake() }

func (f *follower) wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// explain requests a query to Redis for the reason if there is still no leader after queryEvery:
// Observe does not report that Redis can't be reached.
func (f *follower) explain() {
	time.AfterFunc(queryEvery, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.leader.token == 0 {
			f.wake()
		}
	})
}

// Close cancels the requests under way, and returns when the goroutines have ended.
func (f *follower) Close() {
	f.end()
	<-f.done
}

func (f *follower) run(ctx context.Context) {
	defer close(f.done)
	var queries sync.WaitGroup
	for ctx.Err() == nil {
		round, again := context.WithCancel(ctx)
		queries.Go(func() {
			defer again()
			f.query(round)
		})
		for ev := range f.election.Observe(round) {
			f.take(ev)
		}
		closed := round.Err() == nil
		again()
		queries.Wait()
		if closed {
			f.show(leader{}, fmt.Errorf("electorgrpc: who leads the election %s is not known any more: %w", f.election.Name(), elector.ErrClosed))
			return
		}
	}
}

// take processes one event. Redis has confirmed every event of Observe.
func (f *follower) take(ev elector.Event) {
	switch ev.Kind { //nolint:exhaustive // the others don't change who leads
	case elector.EventElected, elector.EventAddress:
		f.show(leader{ev.Candidate, ev.Token, ev.Advertise}, nil)
	case elector.EventReleased, elector.EventVacant:
		f.show(leader{}, f.vacant(elector.Status{}))
		f.explain()
	}
}

// show gives the client the leader's address, or no address and the reason.
func (f *follower) show(l leader, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader = l
	f.changes++
	address := ""
	if why == nil {
		address, why = f.addressOf(l)
	}
	had := f.placed
	if f.placed = why == nil; f.placed {
		_ = f.cc.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: address}}}) // the error only matters to resolvers that poll
		return
	}
	// Without the empty state the client would keep its connection to the former leader; without the
	// error its RPCs would fail with "produced zero addresses".
	if had {
		_ = f.cc.UpdateState(resolver.State{})
	}
	f.cc.ReportError(why)
}

func (f *follower) addressOf(l leader) (string, error) {
	if l.advertised == "" {
		return "", fmt.Errorf("electorgrpc: the leader of %s, %s, advertises no address: give each candidate the one at which its gRPC server is reached (Config.Advertise, --advertise)", f.election.Name(), l.id)
	}
	address, err := f.address(l.advertised)
	if err != nil {
		return "", fmt.Errorf("electorgrpc: the leader of %s, %s, has no usable address: %w", f.election.Name(), l.id, err)
	}
	return address, nil
}

// query queries Redis whenever woken is signaled, until the round ends, or until Redis shows
// another leader than Observe has reported.
func (f *follower) query(round context.Context) {
	for {
		select {
		case <-round.Done():
			return
		case <-f.woken:
		}
		changes := f.shown()
		st, err := f.election.Status(round)
		if round.Err() != nil || f.differs(changes, st, err) {
			return
		}
		select {
		case <-round.Done():
			return
		case <-time.After(queryEvery):
		}
	}
}

func (f *follower) shown() (changes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// differs reports whether Redis shows another leader than the client was given. If neither has a
// leader, differs gives the client the reason.
func (f *follower) differs(changes int, st elector.Status, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changes != changes { // Observe has reported a change during the query
		return false
	}
	if err != nil {
		if f.leader.token == 0 {
			f.cc.ReportError(fmt.Errorf("electorgrpc: who leads the election %s is not known: %w", f.election.Name(), err))
		}
		return false
	}
	var found leader
	if st.Leader != nil {
		found = leader{st.Leader.Candidate, st.Leader.Token, st.Leader.Advertise}
	}
	if f.leader == found && found.token == 0 {
		f.cc.ReportError(f.vacant(st))
	}
	return f.leader != found
}

// vacant returns the error of RPCs while no candidate leads, with the reason if st has one.
func (f *follower) vacant(st elector.Status) error {
	why := "wait for one (grpc.WaitForReady), or look with mandate status " + f.election.Name()
	switch {
	case st.Blocked != "":
		why = "and none can: " + st.Blocked
	case st.Paused:
		why = "it is paused " + st.Pause
	}
	return fmt.Errorf("electorgrpc: no candidate leads the election %s: %s", f.election.Name(), why)
}

package electorgrpc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/resolver"

	"github.com/mandate-dev/mandate/elector"
)

// queryEvery bounds how often gRPC can have Redis queried, and is how long there is no leader before
// the reason is looked up.
const queryEvery = time.Second

// follower gives the leader's address to one client. Observe alone decides who leads; a query
// only decides whether to observe anew, so there is no second opinion to reconcile.
type follower struct {
	election *elector.Election
	cc       resolver.ClientConn
	address  func(string) (string, error)
	end      context.CancelFunc
	done     chan struct{} // closed when run has returned
	woken    chan struct{} // holds one value when Redis is to be queried

	mu      sync.Mutex // held while cc is given a state, so that states arrive in order
	leader  leader     // zero: none is known
	changes int        // of leader
	placed  bool       // the client has an address
}

// leader is what a client's connection depends on.
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

// ResolveNow has Redis queried: what gRPC could not connect to may not lead any more. It does not block.
func (f *follower) ResolveNow(resolver.ResolveNowOptions) { f.wake() }

func (f *follower) wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// explain has Redis queried for the reason when there is no leader in a while: Observe does not report that
// Redis can't be reached.
func (f *follower) explain() {
	time.AfterFunc(queryEvery, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.leader.token == 0 {
			f.wake()
		}
	})
}

// Close returns when the goroutines have ended, which cancels their requests.
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

// take follows one event, each of which Redis has confirmed.
func (f *follower) take(ev elector.Event) {
	switch ev.Kind { //nolint:exhaustive // the others don't change who leads
	case elector.EventElected, elector.EventAddress:
		f.show(leader{ev.Candidate, ev.Token, ev.Advertise}, nil)
	case elector.EventReleased, elector.EventVacant:
		f.show(leader{}, f.vacant(elector.Status{}))
		f.explain()
	}
}

// show gives the client the leader's address, or else none and the reason.
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
		_ = f.cc.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: address}}}) // an error is for resolvers that poll
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

// query queries Redis when it is woken, until the round ends. It returns when Redis shows
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

// differs reports whether Redis shows another leader than the client has been given. Where both are
// none, the client gets the reason.
func (f *follower) differs(changes int, st elector.Status, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changes != changes { // Observe is ahead of the answer
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

// vacant is the error of RPCs while no candidate leads, with what st has of the reason.
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

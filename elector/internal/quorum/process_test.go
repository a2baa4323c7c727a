package quorum

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// process is the voters of several elections on one set of nodes, as one process has them.
type process struct {
	t      *testing.T
	polls  *polls
	first  sync.WaitGroup // the renewal of the first election
	away   atomic.Bool    // that is on its way
	voters []*booth
	tokens []uint64

	mu    sync.Mutex
	calls []int // for how many elections each renewal, release or claim was
}

const trip = 10 * time.Millisecond

// watch counts the calls to a node, and has f look at each before it runs; true: f has answered it.
func (all *process) watch(node int, f func([]protocol.Call, *server.Peer) bool) {
	all.polls.redis[node].Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		calls := protocol.ParseCalls(cmd, args...)
		if len(calls) == 0 {
			return false
		}
		if node == 0 {
			all.mu.Lock()
			all.calls = append(all.calls, len(calls))
			all.mu.Unlock()
		}
		return f != nil && f(calls, c)
	})
}

// apart are the errors of nodes that take no call for several elections.
var apart = []string{"CROSSSLOT Keys in request don't hash to the same slot", "NOPERM No permissions to access a key"}

// wantsEachApart has the first node refuse calls for several elections; or, as one denied, all calls that begin an election's keys
// with this one.
func (all *process) wantsEachApart(refusal, key string) (denied bool) {
	denied = strings.HasPrefix(refusal, "NOPERM")
	all.watch(0, func(calls []protocol.Call, c *server.Peer) bool {
		refuse := !denied && len(calls) > 1
		for _, call := range calls {
			refuse = refuse || denied && call.Keys[0] == key
		}
		if refuse {
			c.WriteError(refusal)
		}
		return refuse
	})
	return denied
}

// took are the calls to the first node since the last take.
func (all *process) took() []int {
	all.mu.Lock()
	defer all.mu.Unlock()
	calls := all.calls
	all.calls = nil
	return calls
}

// renew has all elections renew at once, but one that is on its way.
func (all *process) renew(left time.Duration, fit func(i int) bool) []Tally {
	tallies := make([]Tally, len(all.voters))
	away := all.away.Load()
	if !away {
		all.first.Wait()
	}
	var wg sync.WaitGroup
	for i, v := range all.voters {
		if i == 0 && away {
			continue
		}
		wg.Go(func() {
			tallies[i] = v.renew(left, all.tokens[i], protocol.Heir{}, func() bool { return fit == nil || fit(i) })
		})
	}
	wg.Wait()
	return tallies
}

// renewed fails the test unless all but those elections were renewed.
func (all *process) renewed(tallies []Tally, but ...int) {
	all.t.Helper()
	for i, tally := range tallies {
		if tally.nodes == nil {
			continue
		}
		want := true
		for _, j := range but {
			want = want && i != j
		}
		if got := tally.Majority(protocol.Renewed); got != want {
			all.t.Errorf("election %d: renewed: %v: %+v", i, got, tally.Answers)
		}
	}
}

// busy has an election of its own on the way to the first node, so that the others wait and travel together behind it.
func (all *process) busy() {
	all.first.Wait()
	all.away.Store(true)
	all.first.Go(func() {
		all.voters[0].renew(testLease, all.tokens[0], protocol.Heir{}, fit)
		all.away.Store(false)
	})
	time.Sleep(trip / 2)
}

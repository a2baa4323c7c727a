package console

import (
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/vacancy"
	"github.com/mandate-dev/mandate/elector"
)

// known is what has been read of one election. Its nodes and its terms are read beside its
// roll call, so all below is guarded by mu.
type known struct {
	election string
	cache    *cache
	hosts    *hostCache
	inGroup  bool // a shard that is open: the row is its group's

	mu     sync.Mutex
	status elector.Status
	read   time.Time     // when that was; zero: never
	lease  time.Duration // the longest that was left of the leader's: the whole bar
	sight  vacancy.Sight // of its leaders
	err    error         // of the last look
	// answered: a node answered it with an error, about this election perhaps.
	answered bool
	count    count
	brief    brief
}

// look notes what the nodes answered, or why nothing is known, and sets the row. True:
// there is another leader, or none any more.
func (k *known) look(st elector.Status, err error, now time.Time) (changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answered = slices.ContainsFunc(st.Nodes, func(n elector.NodeStatus) bool { return n.Error != "" && n.Answered })
	if k.err = err; err == nil {
		before := k.status.Leader
		k.status, k.read = st, now
		k.hosts.led(k.election, st.Leader)
		k.sight.Look(st.Leader != nil, now)
		switch l := st.Leader; {
		case l == nil:
			changed = before != nil
		case before != nil && before.Token == l.Token:
			k.lease = max(k.lease, l.LeaseLeft)
		default:
			changed, k.lease = true, l.LeaseLeft
		}
	}
	k.show(now)
	return changed
}

// misnamed notes that this can be no election's name: nothing is read then.
func (k *known) misnamed(err error, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err, k.answered = err, true
	k.show(now)
}

// terms notes the latest terms, and sets the row.
func (k *known) terms(records []elector.TermRecord, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.brief = briefOf(records, now)
	began, ended := lastTerm(records)
	k.sight.Recorded(began, ended, now)
	k.show(now)
}

// candidates notes a roll call, and sets the row. When it was called, the leader was an
// incarnation.
func (k *known) candidates(all []elector.CandidateStatus, leader string, now time.Time) {
	k.hosts.called(k.election, all)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count = countOf(all, leader)
	k.show(now)
}

// show sets the row; it is called with mu held.
func (k *known) show(now time.Time) {
	var r row
	switch {
	case !k.read.IsZero():
		r = rowOf(k.election, k.status, k.lease, k.count, k.brief, k.sight, now)
	case k.err != nil:
		r = row{Election: k.election, State: stateUnknown, Of: -1}
	default:
		return
	}
	if k.err != nil && !k.read.IsZero() {
		r.AsOfMS = k.read.UnixMilli()
	}
	if k.err != nil && k.answered { // that no node answers stands above the table, once
		r.Error = cut(problemText(k.err), rowDetail)
	}
	if !k.inGroup {
		k.cache.set(kindRow, k.election, r)
	}
}

// leader is the incarnation that leads, as far as is known.
func (k *known) leader() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.status.Leader; l != nil {
		return l.Incarnation
	}
	return ""
}

// bar is the lease of the leader; zero: there is no leader.
func (k *known) bar() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.status.Leader == nil {
		return 0
	}
	return k.lease
}

// statusAt is what a card shows: where nothing can be read, what was known before.
func (k *known) statusAt(st elector.Status, err error, now time.Time) status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := statusOf(k.election, st, err, now)
	if err != nil && !k.read.IsZero() {
		nodes := s.Nodes
		s = statusOf(k.election, k.status, err, k.read)
		s.AsOfMS, s.Nodes = k.read.UnixMilli(), nodes
	}
	if s.Leader != nil {
		s.Leader.LeaseMS = k.lease.Milliseconds()
	}
	return s
}

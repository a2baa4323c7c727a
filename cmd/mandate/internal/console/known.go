package console

import (
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/vacancy"
	"github.com/mandate-dev/mandate/elector"
)

// known is what has been read of one election. Its status, its terms and its roll are read by
// different goroutines, so mu guards the fields below it.
type known struct {
	election string
	cache    *cache
	hosts    *hostCache
	inGroup  bool // a shard that a viewer has opened: only its group has a row

	mu     sync.Mutex
	status elector.Status
	read   time.Time     // when status was read; zero: never
	lease  time.Duration // the longest remaining lease seen of this leader, which is the full bar
	sight  vacancy.Sight // when leaders were seen
	err    error         // of the last read of the status
	// answered: a node answered the last read with an error, perhaps one of this election only.
	answered bool
	count    count
	brief    brief
}

// look records the status, or why it is unknown, and updates the row. It reports whether the leader
// has changed, or there is none any more.
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

// misnamed records that this name can't be that of an election, so that nothing is read.
func (k *known) misnamed(err error, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err, k.answered = err, true
	k.show(now)
}

// terms records the latest terms, and updates the row.
func (k *known) terms(records []elector.TermRecord, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.brief = briefOf(records, now)
	began, ended := lastTerm(records)
	k.sight.Recorded(began, ended, now)
	k.show(now)
}

// candidates records a roll, and updates the row. leader is the incarnation that led when the roll
// was called.
func (k *known) candidates(all []elector.CandidateStatus, leader string, now time.Time) {
	k.hosts.called(k.election, all)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count = countOf(all, leader)
	k.show(now)
}

// show updates the row. The caller holds mu.
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
	if k.err != nil && k.answered { // if no node answers, that is shown once, above the table
		r.Error = cut(problemText(k.err), rowDetail)
	}
	if !k.inGroup {
		k.cache.set(kindRow, k.election, r)
	}
}

// leader returns the incarnation of the leader, as far as is known.
func (k *known) leader() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.status.Leader; l != nil {
		return l.Incarnation
	}
	return ""
}

// bar returns the full lease of the leader, or zero if there is no leader.
func (k *known) bar() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.status.Leader == nil {
		return 0
	}
	return k.lease
}

// statusAt returns what the details show: the status, or the last known one if it can't be read
// now.
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

package quorum

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Report is a change of a term that the nodes are to publish and to record.
type Report struct {
	// Event is what goes to the events channel and to the history. late is false the first
	// time: a report that is made again has how long ago that was.
	Event func(late bool) []byte
	Front string // goes to the wake channel first, unless empty
}

// maxUnrecorded is how many reports are kept for a node that does not take them: the
// terms of a few minutes of flapping.
const maxUnrecorded = 16

// unrecordedWait is the longest time between two attempts to have a node record what it
// has refused: its memory may be full for days.
const unrecordedWait = time.Minute

// recorder has one node publish and record reports, in their order. What the node did not
// record is kept, and recorded when it answers again: a process that lives through an
// outage of Redis can record why its term ended, and without that the history calls the term
// vanished, as if the process had been killed.
type recorder struct {
	rdb        redis.UniversalClient
	keys       *Keys
	limit      time.Duration // of one request
	refused    func(error)   // gets the error of a report that the node did not record
	background *flights

	waits  atomic.Bool // unrecorded is not empty: checked after each answer of the node
	denies atomic.Bool // the node answered the last attempt, and did not record: for want of a right, or of memory

	mu         sync.Mutex    // of all below
	last       chan struct{} // closed when the newest attempt has ended; nil: there was none
	unrecorded []Report      // oldest first
	repeating  bool          // an attempt to record them is under way
	wait       time.Duration // between such attempts; doubles with each
	next       time.Time     // when the next one may be made
}

// announce publishes a report and has it recorded, behind those before it. It does not wait
// for that.
func (rec *recorder) announce(r Report) {
	rec.inOrder(func() {
		if !rec.record(r, true) {
			rec.keep(r)
		}
	})
}

// again is called when the node has answered: it repeats the reports that the node has not
// recorded yet. They are not published again: what they report is known to the candidates,
// and must not wake them.
func (rec *recorder) again() {
	if !rec.waits.Load() || !rec.begin() {
		return
	}
	rec.inOrder(func() {
		all, done := rec.take(), 0
		for done < len(all) && rec.record(all[done], false) {
			done++
		}
		rec.end(all[done:])
	})
}

// inOrder runs fn after the attempts before it, each of which is bounded by the time-out of
// its request.
func (rec *recorder) inOrder(fn func()) {
	done := make(chan struct{})
	rec.mu.Lock()
	before := rec.last
	rec.last = done
	rec.mu.Unlock()
	rec.background.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		fn()
	})
}

// record reports whether the node took a report into its history.
func (rec *recorder) record(r Report, first bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), rec.limit)
	defer cancel()
	events, front := rec.keys.Events, r.Front
	if !first {
		events, front = "", ""
	}
	refused, err := announceScript.Run(ctx, rec.rdb, []string{rec.keys.History},
		r.Event(!first), maxEntries, events, rec.keys.Wake, front).Text()
	rec.denies.Store(err == nil && refused != "")
	if rec.denies.Load() {
		rec.refused(needs(errors.New(refused), "+xadd ~"+rec.keys.History))
	}
	return err == nil && refused == ""
}

// keep adds a report to those that the node has not recorded; of too many the newest stay.
func (rec *recorder) keep(r Report) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.set(append(rec.unrecorded, r))
}

// begin reports whether it is time to record them.
func (rec *recorder) begin() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.repeating || time.Now().Before(rec.next) {
		return false
	}
	rec.repeating = true
	return true
}

// settled reports whether another attempt would change nothing by now: all is recorded, or the
// node has refused it, which takes an operator.
func (rec *recorder) settled() bool {
	rec.mu.Lock()
	last := rec.last
	rec.mu.Unlock()
	if last != nil {
		select {
		case <-last:
		default:
			return false // under way
		}
	}
	return !rec.waits.Load() || rec.denies.Load()
}

func (rec *recorder) take() []Report {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	all := rec.unrecorded
	rec.set(nil)
	return all
}

// end puts back what could not be recorded.
func (rec *recorder) end(left []Report) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.repeating = false
	if len(left) == 0 {
		rec.wait, rec.next = 0, time.Time{}
		return
	}
	rec.wait = min(max(2*rec.wait, rec.limit), unrecordedWait)
	rec.next = time.Now().Add(rec.wait)
	rec.set(append(left, rec.unrecorded...))
}

func (rec *recorder) set(all []Report) {
	rec.unrecorded = all[max(0, len(all)-maxUnrecorded):]
	rec.waits.Store(len(rec.unrecorded) > 0)
}

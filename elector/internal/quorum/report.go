package quorum

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/conns"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/transport"
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

// lateAfter is for how long a report may wait to be sent without being late. Readers of the history compare when a node received
// the reports of several terms.
const lateAfter = 100 * time.Millisecond

// recorder has one node publish and record reports, in their order. What the node did not
// record is kept, and recorded when it answers again: a process that lives through an
// outage of Redis can record why its term ended, and without that the history calls the term
// vanished, as if the process had been killed.
type recorder struct {
	sender     *transport.Sender
	keys       *protocol.Keys
	limit      time.Duration // of one request
	refused    func(error)   // gets the error of a report that the node did not record
	background *flights

	waits  atomic.Bool // unrecorded is not empty: checked after each answer of the node
	denies atomic.Bool // the node answered the last attempt, and did not record: for want of a right, or of memory

	mu         sync.Mutex    // of all below
	turns      []turn        // the first is under way
	repeated   []Report      // of that one, where it repeats some: those that are not recorded yet
	unrecorded []Report      // oldest first
	repeating  bool          // one of the turns is to record them
	wait       time.Duration // between such attempts; doubles with each
	next       time.Time     // when the next one may be made
}

// turn is what a recorder does behind what came before it: to have a report published and recorded, or to have those recorded that
// the node did not.
type turn struct {
	report  Report
	repeats bool
	since   time.Time
}

// announce publishes a report and has it recorded, behind those before it. It does not wait
// for that.
func (rec *recorder) announce(r Report) { rec.queue(turn{report: r, since: time.Now()}) }

// again is called when the node has answered: it repeats the reports that the node has not
// recorded yet. They are not published again: what they report is known to the candidates,
// and must not wake them.
func (rec *recorder) again() {
	if rec.waits.Load() && rec.begin() {
		rec.queue(turn{repeats: true})
	}
}

// queue has a turn follow those before it, each of which is bounded by the time of its requests.
func (rec *recorder) queue(t turn) {
	rec.background.begin()
	rec.mu.Lock()
	rec.turns = append(rec.turns, t)
	first := len(rec.turns) == 1
	rec.mu.Unlock()
	if first {
		rec.start()
	}
}

// start is that of the first turn.
func (rec *recorder) start() {
	rec.mu.Lock()
	t := rec.turns[0]
	if t.repeats {
		rec.repeated = rec.unrecorded
		rec.set(nil)
		t.report = rec.repeated[0] // only a turn to repeat takes some away, and there is one at a time
	}
	rec.mu.Unlock()
	rec.send(t)
}

// send requests that of the node, once, together with what other elections report. It does not wait for that.
func (rec *recorder) send(t turn) {
	now, within := time.Now(), (transport.Connecting+1)*rec.limit
	a := &recording{rec: rec, turn: t}
	if rec.sender.Posts() {
		a.Of(rec.keys.ForAnnounce(), a)
		rec.sender.Post(protocol.AnnounceScript, rec.limit, now, within, &a.Request)
		return
	}
	go func() {
		ctx, cancel := conns.Until(context.Background(), within)
		defer cancel()
		a.Then(rec.sender.Send(protocol.AnnounceScript, rec.limit, transport.NewRequest(ctx, rec.keys.ForAnnounce(), a.Args)))
	}()
}

// recording is one request to record a report.
type recording struct {
	transport.Request
	turn

	rec  *recorder
	own  [protocol.AnnounceArity]any
	none string
}

// Args are made when it is sent: what is late reports by how much.
func (a *recording) Args() []any {
	events, front := &a.rec.keys.Events, &a.report.Front
	if a.repeats {
		events, front = &a.none, &a.none
	}
	a.own = protocol.AnnounceArgs(a.report.Event(a.repeats || time.Since(a.since) > lateAfter), events, a.rec.keys, front)
	return a.own[:]
}

// Then takes its outcome.
func (a *recording) Then(o transport.Outcome) {
	rec, err := a.rec, a.rec.denial(o.Answer.Err)
	rec.denies.Store(err != nil)
	if err == nil {
		rec.ended(o.Answer.Status == protocol.Recorded)
		return
	}
	go func() { // what is logged then must not hold up the others that the call was for
		rec.refused(err)
		rec.ended(false)
	}()
}

// denial is why the node does not record, if another attempt would not change that; nil: it may. A node that lets the
// user run scripts, and not name the history's key to them, refuses the whole call.
func (rec *recorder) denial(err error) error {
	why := rediserr.Refusal("")
	switch {
	case errors.As(err, &why):
		return rediserr.Needs(why, "+xadd ~"+rec.keys.History)
	case !rediserr.Denied(err):
		return nil
	case rediserr.NamesCommand(err):
		return err
	}
	return rediserr.Needs(err, "~"+rec.keys.History)
}

// Carried is nothing to it: it is not used again.
func (*recording) Carried() {}

// ended is the end of the attempt that is under way, and where that was its last one, of the turn. recorded: the node took the
// report into its history.
func (rec *recorder) ended(recorded bool) {
	rec.mu.Lock()
	t := rec.turns[0]
	switch {
	case t.repeats && recorded && len(rec.repeated) > 1:
		rec.repeated = rec.repeated[1:]
		t.report = rec.repeated[0]
		rec.mu.Unlock()
		rec.send(t)
		return
	case t.repeats && recorded:
		rec.end(nil)
	case t.repeats:
		rec.end(rec.repeated)
	case !recorded:
		rec.keep(t.report)
	}
	rec.repeated = nil
	if rec.turns = rec.turns[1:]; len(rec.turns) == 0 {
		rec.turns = nil // most elections report twice in months
	}
	more := len(rec.turns) > 0
	rec.mu.Unlock()
	if more {
		rec.start()
	}
	rec.background.end()
}

// keep adds a report to those that the node has not recorded; of too many the newest stay. The caller holds mu.
func (rec *recorder) keep(r Report) { rec.set(append(rec.unrecorded, r)) }

// begin reports whether it is time to record them.
func (rec *recorder) begin() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.repeating || len(rec.unrecorded) == 0 || time.Now().Before(rec.next) {
		return false
	}
	rec.repeating = true
	return true
}

// settled reports whether another attempt would change nothing by now: all is recorded, or the
// node has refused it, which takes an operator.
func (rec *recorder) settled() bool {
	rec.mu.Lock()
	busy := len(rec.turns) > 0
	rec.mu.Unlock()
	return !busy && (!rec.waits.Load() || rec.denies.Load())
}

// end puts back what could not be recorded. The caller holds mu.
func (rec *recorder) end(left []Report) {
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

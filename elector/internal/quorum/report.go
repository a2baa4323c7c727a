package quorum

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// Report is a change of a term that the nodes are to publish and to record.
type Report struct {
	Event []byte // goes to the events channel and to the history
	Front string // is published on the wake channel first, unless empty
}

// maxUnrecorded is how many reports are kept for a node that does not record them: the
// terms of a few minutes of flapping.
const maxUnrecorded = 16

// unrecordedWait is the maximum time between two attempts to record on a node what it
// has refused: its memory may be full for days.
const unrecordedWait = time.Minute

// recorder makes one node publish and record reports, in order. Reports that the node did not record
// are kept, and recorded when the node answers again: so a process that survives an outage of Redis
// can record why its term ended. Without that record the history would show the term as vanished,
// as if the process had been killed.
type recorder struct {
	sender     *transport.Sender
	keys       *protocol.Keys
	limit      time.Duration // of one request
	refused    func(error)   // gets the error of a report that the node did not record
	background *flights

	waits  atomic.Bool // unrecorded is not empty: checked after each answer of the node
	denies atomic.Bool // the node answered the last attempt without recording: no right, or no memory

	mu         sync.Mutex    // guards all below
	turns      []turn        // the first is under way
	repeated   []Report      // if that one repeats reports: those that it has yet to record
	unrecorded []Report      // oldest first
	repeating  bool          // one of the turns repeats the unrecorded reports
	wait       time.Duration // between attempts to repeat them; doubles with each
	next       time.Time     // the earliest time of the next such attempt
}

// turn is one step of a recorder, after the steps before it: to publish and record a report, or to
// repeat (record only) those that the node has not recorded.
type turn struct {
	report  Report
	repeats bool
}

// announce makes the node publish and record a report, after those before it. It does not block.
func (rec *recorder) announce(r Report) { rec.queue(turn{report: r}) }

// again is called when the node has answered a request. It repeats the reports that the node has not
// recorded yet. They are not published again: the candidates know what they report, and must not be
// woken by it.
func (rec *recorder) again() {
	if rec.waits.Load() && rec.begin() {
		rec.queue(turn{repeats: true})
	}
}

// queue adds a turn after those before it. Each turn lasts as long as its requests may take.
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

// start begins the first turn.
func (rec *recorder) start() {
	rec.mu.Lock()
	t := rec.turns[0]
	if t.repeats {
		rec.repeated = rec.unrecorded
		rec.set(nil)
		t.report = rec.repeated[0] // not empty: only a repeating turn empties unrecorded, and there is one at a time
	}
	rec.mu.Unlock()
	rec.send(t)
}

// send sends the turn's report to the node, once, together with reports of other elections. It does
// not block.
func (rec *recorder) send(t turn) {
	now, within := time.Now(), (transport.ConnectLimits+1)*rec.limit
	a := &recording{rec: rec, turn: t}
	if rec.sender.CanPost() {
		a.Init(rec.keys.AnnounceKeys(), a)
		rec.sender.Post(protocol.AnnounceScript, rec.limit, now, within, &a.Request)
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		a.Done(rec.sender.Send(protocol.AnnounceScript, rec.limit, transport.NewRequest(ctx, rec.keys.AnnounceKeys(), a.Args)))
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

// Args returns the script's arguments.
func (a *recording) Args() []any {
	events, front := &a.rec.keys.Events, &a.report.Front
	if a.repeats {
		events, front = &a.none, &a.none
	}
	a.own = protocol.AnnounceArgs(a.report.Event, events, a.rec.keys, front)
	return a.own[:]
}

// Done takes the outcome.
func (a *recording) Done(o transport.Outcome) {
	rec, err := a.rec, a.rec.denial(o.Answer.Err)
	rec.denies.Store(err != nil)
	if err == nil {
		rec.ended(o.Answer.Status == protocol.Recorded)
		return
	}
	go func() { // logging it must not delay the other elections of the call
		rec.refused(err)
		rec.ended(false)
	}()
}

// denial returns why the node refuses to record, so that another attempt would be useless for now;
// nil: it does not refuse. If the user may run scripts but not access the history's key, the node
// refuses the whole call.
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

// CallEnded does nothing: a recording is not reused.
func (*recording) CallEnded() {}

// ended ends the request under way, and the turn, unless the turn has more reports to repeat. recorded
// reports whether the node has recorded the report.
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

// keep adds a report to those that the node has not recorded, of which only the newest maxUnrecorded
// are kept. The caller holds mu.
func (rec *recorder) keep(r Report) { rec.set(append(rec.unrecorded, r)) }

// begin reports whether it is time to repeat the unrecorded reports. If so, the caller must queue
// that turn.
func (rec *recorder) begin() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.repeating || len(rec.unrecorded) == 0 || time.Now().Before(rec.next) {
		return false
	}
	rec.repeating = true
	return true
}

// settled reports whether another attempt would be useless now: all is recorded, or the node has
// refused it, which only an operator can change.
func (rec *recorder) settled() bool {
	rec.mu.Lock()
	busy := len(rec.turns) > 0
	rec.mu.Unlock()
	return !busy && (!rec.waits.Load() || rec.denies.Load())
}

// end ends a repeating turn and puts back the reports that could not be recorded. The caller holds mu.
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

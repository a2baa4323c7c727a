package quorum

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Report is a change of a term that the nodes are to publish and to record.
type Report struct {
	Event []byte        // goes to the history, and to the events channel unless Head is empty; empty: see Voter.Keep
	Head  string        // precedes Event in the message (protocol.Message); empty: the release has published it
	Delay time.Duration // before it is sent; the reports after it wait as well
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
	node       *Node
	keys       *protocol.Keys
	limit      time.Duration // of one request
	refused    func(error)   // gets the error of a report that the node did not record
	background *flights

	apart  bool        // the names are kept by calls of their own; belongs to run
	waits  atomic.Bool // unrecorded is not empty: checked after each answer of the node
	denies atomic.Bool // the node answered the last attempt without recording: no right, or no memory

	mu         sync.Mutex    // guards all below
	busy       bool          // run is running
	fresh      []Report      // to be published and recorded, oldest first
	unrecorded []Report      // oldest first
	repeating  bool          // run is to record those
	wait       time.Duration // between attempts to do so; doubles with each
	next       time.Time     // the earliest time of the next such attempt
}

// announce makes the node publish and record a report, after those before it. It does not block.
func (rec *recorder) announce(r Report) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.fresh = append(rec.fresh, r)
	rec.start()
}

// again is called when the node has answered a request. It repeats the reports that the node has not
// recorded yet. They are not published again: the candidates know what they report, and must not be
// woken by it.
func (rec *recorder) again() {
	if !rec.waits.Load() {
		return
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.unrecorded) > 0 && !rec.repeating && !time.Now().Before(rec.next) {
		rec.repeating = true
		rec.start()
	}
}

// start makes run run. The caller holds mu.
func (rec *recorder) start() {
	if !rec.busy {
		rec.busy = true
		rec.background.Go(rec.run)
	}
}

// run sends one report after the other.
func (rec *recorder) run() {
	for r, again, ok := rec.take(); ok; r, again, ok = rec.take() {
		if !again {
			time.Sleep(r.Delay)
		}
		rec.ended(r, again, rec.send(r, again))
	}
}

// take returns the next report, and whether that is repeated. ok is false when there is none.
func (rec *recorder) take() (r Report, again, ok bool) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	switch {
	case len(rec.fresh) > 0:
		r, rec.fresh = rec.fresh[0], rec.fresh[1:]
		return r, false, true
	case rec.repeating:
		return rec.unrecorded[0], true, true
	}
	rec.busy, rec.fresh = false, nil // most elections report twice in months
	return r, false, false
}

// send sends a report to the node, together with those of other elections, and reports whether the node
// has recorded it.
func (rec *recorder) send(r Report, again bool) bool {
	k, head := rec.keys, r.Head
	if again {
		head = ""
	}
	var a protocol.Answer
	if !rec.apart {
		a = rec.ask(protocol.Request{Keys: k, Head: head, Event: string(r.Event)})
		rec.apart = refusesBoth(a.Err)
	}
	if rec.apart {
		history, names := *k, *k
		history.Names, history.Election, names.History = k.History, "", k.Names
		a = rec.ask(protocol.Request{Keys: &history, Head: head, Event: string(r.Event)})
		rec.ask(protocol.Request{Keys: &names})
	}
	err := rec.denial(a.Err)
	rec.denies.Store(err != nil)
	if err != nil {
		rec.refused(err)
	}
	return a.Status == protocol.Recorded
}

// ask sends a part of a report to the node.
func (rec *recorder) ask(what protocol.Request) protocol.Answer {
	ended, lapses := make(chan *request, 1), time.Now().Add(connectLimits*rec.limit)
	rec.node.send(&request{
		Request: what, script: protocol.AnnounceScript, limit: rec.limit,
		wanted: func() bool { return time.Now().Before(lapses) }, ended: ended,
	})
	return (<-ended).answer
}

// refusesBoth reports whether a node refused to run a call because it has keys of two slots, or one that
// this user may not access.
func refusesBoth(err error) bool {
	answer := rediserr.Refusal("")
	return redis.HasErrorPrefix(err, "CROSSSLOT") || rediserr.Denied(err) && !errors.As(err, &answer)
}

// ended notes whether a report was recorded.
func (rec *recorder) ended(r Report, again, recorded bool) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	switch {
	case !again && !recorded && len(r.Event) > 0:
		rec.keep(append(rec.unrecorded, r))
	case again && recorded:
		rec.keep(rec.unrecorded[1:])
		rec.wait, rec.next = 0, time.Time{}
		rec.repeating = len(rec.unrecorded) > 0
	case again:
		rec.repeating = false
		rec.wait = min(max(2*rec.wait, rec.limit), unrecordedWait)
		rec.next = time.Now().Add(rec.wait)
	}
}

// keep sets the unrecorded reports, of which only the newest are kept. The caller holds mu.
func (rec *recorder) keep(all []Report) {
	rec.unrecorded = all[max(0, len(all)-maxUnrecorded):]
	rec.waits.Store(len(rec.unrecorded) > 0)
}

// settled reports whether another attempt would be useless now: all is recorded, or the node has
// refused it, which only an operator can change.
func (rec *recorder) settled() bool {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return !rec.busy && (!rec.waits.Load() || rec.denies.Load())
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

// Announce makes every node publish the report and append it to its history. It does not wait for
// the requests: reporting must never delay a renewal. Each node receives the announcements in the
// order of the calls. If one can't be sent to a node within three times the call time-out, because
// the node hangs, it is no longer published there, only recorded when the node answers again.
func (v *Voter) Announce(r Report) {
	for _, rec := range v.recorders {
		rec.announce(r)
	}
}

// keepEvery is how often a candidate makes the nodes keep the name and the history of its election: its
// leader may report nothing for months.
const keepEvery = 24 * time.Hour

// Keep makes the nodes keep the name and the history of the election, as an event does, unless it has
// done so lately. It does not wait for the requests.
func (v *Voter) Keep() {
	if now := time.Now(); v.kept.IsZero() || now.Sub(v.kept) >= keepEvery {
		v.kept = now
		v.Announce(Report{})
	}
}

// AwaitRecorded blocks until a majority of the nodes has recorded all reports, for at most limit. A
// process that is about to end has no later occasion. Reports that a node did not answer are sent to
// it again; a node that refuses to record is not waited for.
func (v *Voter) AwaitRecorded(limit time.Duration) {
	for end := time.Now().Add(limit); v.unsettled() && time.Now().Before(end); {
		for _, rec := range v.recorders {
			rec.again()
		}
		// In short steps: a node that hangs must not delay the repetition on the others.
		v.background.wait(min(v.cfg.CallTimeout/8, time.Until(end)))
		if !v.unsettled() {
			return
		}
		select {
		case <-v.nodes.Life().Done():
			return
		case <-time.After(min(v.cfg.CallTimeout/8, time.Until(end))):
		}
	}
}

// unsettled reports whether the nodes that have recorded all reports, or refused to, are no majority.
func (v *Voter) unsettled() bool {
	settled := 0
	for _, rec := range v.recorders {
		if rec.settled() {
			settled++
		}
	}
	return settled < v.nodes.Majority()
}

// flights counts the requests under way. Unlike a sync.WaitGroup, it can be waited
// for with a time-out, and continues counting meanwhile.
type flights struct {
	mu   sync.Mutex
	n    int
	zero chan struct{} // closed when n becomes 0; nil unless a goroutine waits for that
}

func (f *flights) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

func (f *flights) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.zero != nil {
		close(f.zero)
		f.zero = nil
	}
}

// Go runs fn on a goroutine that is counted.
func (f *flights) Go(fn func()) {
	f.begin()
	go func() {
		defer f.end()
		fn()
	}()
}

// wait blocks until nothing is under way, for at most d.
func (f *flights) wait(d time.Duration) {
	f.mu.Lock()
	if f.n == 0 {
		f.mu.Unlock()
		return
	}
	if f.zero == nil {
		f.zero = make(chan struct{})
	}
	zero := f.zero
	f.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-zero:
	case <-timer.C:
	}
}
